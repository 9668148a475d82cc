package command

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// nicCommands are what happens to NICs. One is named by its PCI address, its network
// interface or an RDMA device of it.
func nicCommands() []ctlCommand {
	return []ctlCommand{
		{name: "nic port", arguments: "--nic NAME [--port P] [--state S ...]", does: "change a port: its link, its rate, whether it knows a subnet manager", flags: portFlags},
		{name: "nic flap", arguments: "--nic NAME [--times N] [--interval TIME]", does: "let a link go down and come back", flags: flapFlags},
		{name: "nic unplug", arguments: "--nic NAME [--for TIME]", does: "take a NIC out while the node runs, for good or until it comes late", flags: unplugFlags},
		{name: "nic plug", arguments: "--nic NAME", does: "put the NIC back that was taken out", flags: func(fs *flag.FlagSet) func() (request, error) {
			nic := nicFlag(fs)
			return func() (request, error) { return nicRequest(*nic, "plug", nil) }
		}},
		{name: "nic rename", arguments: "--nic NAME --interface IF", does: "give its network interface another name, or none, as of one that was moved into a pod", flags: renameFlags},
		{name: "nic vfs", arguments: "--nic NAME --count N", does: "make virtual functions of a physical one, or remove them all with 0", flags: func(fs *flag.FlagSet) func() (request, error) {
			nic, count := nicFlag(fs), fs.Int("count", 0, "`number` of virtual functions")
			return func() (request, error) { return nicRequest(*nic, "vfs", *count) }
		}},
		{name: "nic routes", arguments: "--interfaces IF,...", does: "let these network interfaces carry the default route, or none", flags: routeFlags},
		{name: "nic mode", arguments: "--exclusive=BOOL", does: "say whether each RDMA device is in one network namespace only", flags: func(fs *flag.FlagSet) func() (request, error) {
			exclusive := fs.Bool("exclusive", true, "the mode of the kernel's RDMA modules; false is shared")
			return func() (request, error) { return post("/rdma", *exclusive), nil }
		}},
	}
}

func nicFlag(fs *flag.FlagSet) *string {
	return fs.String("nic", "", "`name` of the NIC: its PCI address, its network interface or its RDMA device (required)")
}

// nicRequest is about one NIC.
func nicRequest(nic, what string, body any) (request, error) {
	if nic == "" {
		return request{}, errors.New("flag --nic is required")
	}
	return post(fmt.Sprintf("/nics/%s/%s", url.PathEscape(nic), what), body), nil
}

func portFlags(fs *flag.FlagSet) func() (request, error) {
	nic := nicFlag(fs)
	var c simhw.PortChange
	fs.IntVar(&c.Port, "port", 0, "`number` of the port; 0 means all")
	fs.StringVar(&c.State, "state", "", "logical `state`, which also sets what follows from it: "+strings.Join(simhw.PortStates(), ", "))
	fs.StringVar(&c.PhysicalState, "physical-state", "", "physical `state`: "+strings.Join(simhw.PhysicalStates(), ", "))
	fs.IntVar(&c.GigabitsPerSecond, "rate", 0, "rate in `Gb/s`; 0 leaves it")
	fs.BoolFunc("subnet-manager", "whether the port knows a subnet manager (sm_lid); =false is that it has gone", func(s string) error {
		knows, err := strconv.ParseBool(s)
		c.SubnetManager = &knows
		return err
	})
	return func() (request, error) {
		if c == (simhw.PortChange{Port: c.Port}) {
			return request{}, errors.New("nothing to change")
		}
		return nicRequest(*nic, "port", c)
	}
}

// flapRequest is how a link is to flap; times are in Go's form.
type flapRequest struct {
	Port     int    `json:"port,omitempty"`
	Times    int    `json:"times"`
	Interval string `json:"interval"`
}

func flapFlags(fs *flag.FlagSet) func() (request, error) {
	nic := nicFlag(fs)
	port := fs.Int("port", 0, "`number` of the port; 0 means all")
	times := fs.Int("times", 1, "how `often` it goes down")
	interval := fs.Duration("interval", 0, "`time` that it stays down, and up in between")
	return func() (request, error) {
		return nicRequest(*nic, "flap", flapRequest{Port: *port, Times: *times, Interval: interval.String()})
	}
}

func unplugFlags(fs *flag.FlagSet) func() (request, error) {
	nic, lasts := nicFlag(fs), fs.Duration("for", 0, "`time` after which it comes by itself; 0 means never")
	return func() (request, error) { return nicRequest(*nic, "unplug", lasts.String()) }
}

func renameFlags(fs *flag.FlagSet) func() (request, error) {
	nic := nicFlag(fs)
	var name *string
	fs.Func("interface", "`name` that the interface gets; empty is none (required)", func(s string) error { name = &s; return nil })
	return func() (request, error) {
		if name == nil {
			return request{}, errors.New("flag --interface is required")
		}
		return nicRequest(*nic, "interface", *name)
	}
}

func routeFlags(fs *flag.FlagSet) func() (request, error) {
	interfaces := []string{}
	fs.Func("interfaces", "comma-separated `names`, the best route first; empty is no route", func(s string) error {
		if interfaces = []string{}; s != "" {
			interfaces = strings.Split(s, ",")
		}
		return nil
	})
	return func() (request, error) { return post("/routes", interfaces), nil }
}

func (c *control) nicRoutes() {
	changeNIC(c, "port", func(nic string, body simhw.PortChange) error { return c.engine.SetPort(nic, body) })
	changeNIC(c, "flap", func(nic string, body flapRequest) error {
		interval, err := time.ParseDuration(body.Interval)
		if err != nil {
			return fmt.Errorf("decode request: %w", err)
		}
		return c.engine.Flap(nic, body.Port, body.Times, interval)
	})
	changeNIC(c, "unplug", func(nic, body string) error {
		lasts, err := time.ParseDuration(body)
		if err != nil {
			return fmt.Errorf("decode request: %w", err)
		}
		return c.engine.UnplugNIC(nic, lasts)
	})
	changeNIC(c, "plug", func(nic string, _ any) error { return c.engine.PlugNIC(nic) })
	changeNIC(c, "interface", c.engine.RenameInterface)
	changeNIC(c, "vfs", c.engine.SetVFs)
	c.change("POST /routes", func(r *http.Request) error {
		var body []string
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.SetDefaultRoutes(body)
	})
	c.change("POST /rdma", func(r *http.Request) error {
		var body bool
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.SetExclusiveRDMA(body)
	})
}

// changeNIC is change for paths with a NIC.
func changeNIC[T any](c *control, what string, do func(nic string, body T) error) {
	c.change("POST /nics/{nic}/"+what, func(r *http.Request) error {
		var body T
		if err := decode(r, &body); err != nil {
			return err
		}
		return do(r.PathValue("nic"), body)
	})
}
