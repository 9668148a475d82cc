package command

import (
	"encoding/json"
	"net/http"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// stateCommands look at the node as a whole.
func stateCommands() []ctlCommand {
	watch := get("/watch")
	watch.stream = true
	return []ctlCommand{
		{name: "list", does: "print the state as JSON", request: get("/state")},
		{name: "watch", does: "print the state as one line of JSON, now and after every change", request: watch},
		{name: "stats", does: "print how often each NVML function was called, and how many calls were to change something", request: get("/stats")},
		{name: "reboot", does: "do to GPUs and NICs what a reboot of the node does; the boot id changes", request: post("/reboot", nil)},
	}
}

func (c *control) stateRoutes() {
	c.handle("GET /state", func(*http.Request) (any, error) { return c.engine.Snapshot(), nil })
	c.handle("GET /stats", func(*http.Request) (any, error) { return c.engine.Stats(), nil })
	c.change("POST /reboot", func(*http.Request) error { return c.engine.Reboot() })
	c.HandleFunc("GET /watch", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		lines := json.NewEncoder(w)
		flush := http.NewResponseController(w)
		// The client notices when the lines end.
		_ = c.engine.Watch(r.Context(), func(s simhw.Snapshot) error {
			if err := lines.Encode(s); err != nil {
				return err
			}
			return flush.Flush()
		})
	})
}
