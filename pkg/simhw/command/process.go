package command

import (
	"flag"
	"fmt"
	"net/http"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// processCommands let something run, which keeps what it runs on in use.
func processCommands() []ctlCommand {
	return []ctlCommand{
		{name: "load", arguments: "--gpu N [--instance GI] [--memory-mib M]", does: "start a process on a GPU or a MIG device, which is in use from then on", flags: loadFlags},
		{name: "unload", arguments: "--gpu N [--pid P]", does: "end a process, or all of a GPU", flags: func(fs *flag.FlagSet) func() (request, error) {
			gpu, pid := gpuFlag(fs), fs.Int("pid", 0, "`id` of the process; 0 means all")
			return func() (request, error) { return remove(gpuPath(*gpu, fmt.Sprintf("processes/%d", *pid))), nil }
		}},
	}
}

func loadFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	var p simhw.Process
	fs.IntVar(&p.PID, "pid", 0, "`id` of the process; 0 takes a free one")
	fs.StringVar(&p.Name, "name", "python3", "`name` of the program")
	fs.Int64Var(&p.MemoryMiB, "memory-mib", 512, "GPU memory that it uses, in `MiB`")
	fs.IntVar(&p.GPUInstance, "instance", -1, "`id` of the GPU instance; -1 is the whole GPU")
	fs.IntVar(&p.ComputeInstance, "compute-instance", 0, "`id` of the compute instance in it")
	return func() (request, error) {
		if p.GPUInstance < 0 {
			p.GPUInstance, p.ComputeInstance = simhw.NoInstance, simhw.NoInstance
		}
		return post(gpuPath(*gpu, "processes"), p), nil
	}
}

func (c *control) processRoutes() {
	c.changeGPU("POST /gpus/{gpu}/processes", func(gpu int, r *http.Request) error {
		var p simhw.Process
		if err := decode(r, &p); err != nil {
			return err
		}
		_, err := c.engine.Load(gpu, p)
		return err
	})
	c.changeGPU("DELETE /gpus/{gpu}/processes/{pid}", func(gpu int, r *http.Request) error {
		pid, err := number(r, "pid")
		if err != nil {
			return err
		}
		return c.engine.Unload(gpu, pid)
	})
}
