package command

import (
	"flag"
	"fmt"
	"net/http"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// driverRequest changes what is set.
type driverRequest struct {
	Unloaded  *bool            `json:"unloaded,omitempty"`
	NodesGone *bool            `json:"nodesGone,omitempty"`
	Mismatch  *bool            `json:"mismatch,omitempty"`
	Version   *string          `json:"version,omitempty"`
	BusIDs    *simhw.BusIDForm `json:"busIDs,omitempty"`
}

// driverCommands are about the kernel module and the library beside it.
func driverCommands() []ctlCommand {
	return []ctlCommand{
		{name: "driver unload", arguments: "[--nodes]", does: "unload the driver: every call is DRIVER_NOT_LOADED", flags: func(fs *flag.FlagSet) func() (request, error) {
			nodes := fs.Bool("nodes", false, "remove the device nodes, too")
			return func() (request, error) {
				return post("/driver", driverRequest{Unloaded: new(true), NodesGone: nodes}), nil
			}
		}},
		{name: "driver load", does: "load it again, in the library's version", request: post("/driver",
			driverRequest{Unloaded: new(false), NodesGone: new(false), Mismatch: new(false)})},
		{name: "driver mismatch", does: "let Init fail with LIB_RM_VERSION_MISMATCH until driver load", request: post("/driver", driverRequest{Mismatch: new(true)})},
		{name: "driver set", arguments: "[--version V] [--bus-ids FORM]", does: "change what the driver says, until the daemon ends", flags: driverFlags},
	}
}

func driverFlags(fs *flag.FlagSet) func() (request, error) {
	var r driverRequest
	fs.Func("version", "`version` that NVML and /proc tell, any text", func(s string) error { r.Version = &s; return nil })
	fs.Func("bus-ids", fmt.Sprintf("`form` of PCI addresses: empty for the normal one, or one of %v", simhw.BusIDForms()), func(s string) error {
		r.BusIDs = new(simhw.BusIDForm(s))
		return nil
	})
	return func() (request, error) { return post("/driver", r), nil }
}

func (c *control) driverRoutes() {
	c.change("POST /driver", func(r *http.Request) error {
		var body driverRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.SetDriver(func(d *simhw.DriverState) {
			set(&d.Unloaded, body.Unloaded)
			set(&d.NodesGone, body.NodesGone)
			set(&d.Mismatch, body.Mismatch)
			set(&d.Version, body.Version)
			set(&d.BusIDs, body.BusIDs)
		})
	})
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
