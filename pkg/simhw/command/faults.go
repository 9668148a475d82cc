package command

import (
	"errors"
	"flag"
	"fmt"
	"net/http"

	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

// faultCommands are about NVML calls that go wrong, until the daemon ends.
func faultCommands() []ctlCommand {
	one := func(name, does string, ask func(id int) request) ctlCommand {
		return ctlCommand{name: name, arguments: "[--id N]", does: does, flags: func(fs *flag.FlagSet) func() (request, error) {
			id := fs.Int("id", 0, "`id` of the fault; 0 means all")
			return func() (request, error) { return ask(*id), nil }
		}}
	}
	return []ctlCommand{
		{name: "fault add", arguments: "--call NAME [--gpu N] EFFECT...", does: "let calls of an NVML function go wrong", flags: faultFlags},
		{name: "fault list", does: "print the faults, with how many calls they met and hold", request: get("/faults")},
		one("fault clear", "remove a fault, or all, and let the calls go that it holds", func(id int) request {
			return remove(fmt.Sprintf("/faults/%d", id))
		}),
		one("fault release", "let the calls go that a fault holds, or all, now and later", func(id int) request {
			return post(fmt.Sprintf("/faults/%d/release", id), nil)
		}),
	}
}

func faultFlags(fs *flag.FlagSet) func() (request, error) {
	var f simhw.Fault
	fs.StringVar(&f.Call, "call", "", "`name` of the function in nvml.h, nvmlInit for the start of a connection, or * for all (required)")
	gpu := fs.Int("gpu", -1, "`slot` of the GPU that the call must be about; -1 means whatever")
	instance := fs.Int("instance", -1, "`id` of the GPU instance that the call must be about; -1 means whatever")
	fs.IntVar(&f.Times, "times", 0, "`number` of calls that go wrong; 0 means all")
	fs.DurationVar(&f.Delay, "delay", 0, "`time` that the call takes longer")
	fs.BoolVar(&f.Block, "block", false, "hold the call until fault release or fault clear")
	fs.Func("return", "`code` that the call returns instead of doing anything, for example IN_USE", func(s string) (err error) {
		f.Return, err = simhw.ParseCode(s)
		return err
	})
	fs.BoolVar(&f.NoEffect, "no-effect", false, "let a call that destroys or sets something succeed without doing it")
	fs.DurationVar(&f.Late, "late", 0, "with --no-effect, do it so much `time` later after all")
	fs.BoolVar(&f.Pends, "pends", false, "let a change of MIG mode (nvmlDeviceSetMigMode) wait for a GPU reset")
	fs.BoolVar(&f.Stale, "stale", false, "let nvmlDeviceGetMigDeviceHandleByIndex return MIG devices that are gone to clients that knew them")
	return func() (request, error) {
		if f.Call == "" {
			return request{}, errors.New("flag --call is required")
		}
		if *gpu >= 0 {
			f.GPU = gpu
		}
		if *instance >= 0 {
			f.Instance = instance
		}
		return post("/faults", f), nil
	}
}

func (c *control) faultRoutes() {
	c.handle("GET /faults", func(*http.Request) (any, error) { return c.engine.Faults(), nil })
	c.handle("POST /faults", func(r *http.Request) (any, error) {
		var f simhw.Fault
		if err := decode(r, &f); err != nil {
			return nil, err
		}
		if f.Call != simhw.CallAny && !serve.Serves(f.Call) {
			return nil, fmt.Errorf("the simulator does not serve %q, so it is NOT_SUPPORTED anyway: give a name of nvml.h, %s or %s", f.Call, simhw.CallInit, simhw.CallAny)
		}
		return c.engine.AddFault(f)
	})
	c.handle("DELETE /faults/{id}", c.endFault(c.engine.ClearFault))
	c.handle("POST /faults/{id}/release", c.endFault(c.engine.ReleaseFault))
}

func (c *control) endFault(end func(id int) error) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		id, err := number(r, "id")
		if err == nil {
			err = end(id)
		}
		return c.engine.Faults(), err
	}
}
