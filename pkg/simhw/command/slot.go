package command

import "net/http"

// slotCommands are what happens to GPUs as pieces of hardware.
func slotCommands() []ctlCommand {
	return []ctlCommand{
		{name: "lose", arguments: "--gpu N", does: "let a GPU fall off the bus: its calls are GPU_IS_LOST until a reboot", flags: gpuOnly("lose")},
		{name: "unplug", arguments: "--gpu N", does: "take a GPU out while the node runs", flags: gpuOnly("unplug")},
		{name: "plug", arguments: "--gpu N", does: "put the GPU back that was taken out", flags: gpuOnly("plug")},
		{name: "replace", arguments: "--gpu N", does: "put another GPU of the same model into the slot: same address, new UUID", flags: gpuOnly("replace")},
	}
}

func (c *control) slotRoutes() {
	for what, do := range map[string]func(int) error{
		"lose": c.engine.Lose, "unplug": c.engine.Unplug, "plug": c.engine.Plug, "replace": c.engine.Replace,
	} {
		c.changeGPU("POST /gpus/{gpu}/"+what, func(gpu int, _ *http.Request) error { return do(gpu) })
	}
}
