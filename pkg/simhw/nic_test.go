package simhw

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// nicEngine is a fresh one, whose waits are written down.
func nicEngine(t *testing.T, server string, o Options) (*Engine, *[]time.Duration) {
	t.Helper()
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	var slept []time.Duration
	o.Sleep = func(d time.Duration) { slept = append(slept, d) }
	e, err := NewEngine(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return e, &slept
}

func TestFreshNICs(t *testing.T) {
	for _, name := range catalog.Servers() {
		e, _ := nicEngine(t, name, Options{})
		if diff := cmp.Diff(e.Server().Node().NICs, e.Snapshot().PresentNICs()); diff != "" {
			t.Errorf("%s: NICs (-want +got):\n%s", name, diff)
		}
	}
	e, _ := nicEngine(t, "mixed", Options{Seed: "other"})
	if e.Snapshot().NICs[0].RDMA[0].NodeGUID == e.Server().Node().NICs[0].RDMA[0].NodeGUID {
		t.Error("two nodes have the same GUID")
	}
}

// describe is what the tests look at.
func describe(n NICState) string {
	if n.Absent {
		return "absent"
	}
	var out []string
	for _, d := range n.RDMA {
		for _, p := range d.Ports {
			out = append(out, fmt.Sprintf("%s/%d %s %s %dG sm=%t downed=%d", d.Name, p.Number, p.State, p.PhysicalState, p.BitsPerSecond/1e9, p.HasSubnetManager, n.Downed(d.Name, p.Number)))
		}
	}
	return strings.Join(append(out, n.Interface), ", ")
}

func TestPorts(t *testing.T) {
	no := false
	set := func(nic string, c PortChange) func(*Engine) error {
		return func(e *Engine) error { return e.SetPort(nic, c) }
	}
	tests := map[string]struct {
		server string
		do     func(*Engine) error
		want   string
	}{
		"down":                    {"mixed", set("0000:3a:00.0", PortChange{State: "DOWN"}), "mlx5_0/1 DOWN Polling 10G sm=false downed=1, ibp58s0"},
		"switched off":            {"mixed", set("mlx5_0", PortChange{Port: 1, State: "DOWN", PhysicalState: "Disabled"}), "mlx5_0/1 DOWN Disabled 10G sm=false downed=1, ibp58s0"},
		"not configured":          {"mixed", set("ibp58s0", PortChange{State: "INIT"}), "mlx5_0/1 INIT LinkUp 400G sm=false downed=0, ibp58s0"},
		"no subnet manager":       {"mixed", set("mlx5_0", PortChange{SubnetManager: &no}), "mlx5_0/1 ACTIVE LinkUp 400G sm=false downed=0, ibp58s0"},
		"a slower link":           {"mixed", set("mlx5_0", PortChange{GigabitsPerSecond: 200}), "mlx5_0/1 ACTIVE LinkUp 200G sm=true downed=0, ibp58s0"},
		"flapping":                {"mixed", func(e *Engine) error { return e.Flap("mlx5_0", 1, 3, time.Second) }, "mlx5_0/1 ACTIVE LinkUp 400G sm=true downed=3, ibp58s0"},
		"Ethernet down":           {"roce-vf", set("enp24s0f0np0", PortChange{State: "DOWN"}), "mlx5_0/1 DOWN Polling 40G sm=false downed=1, enp24s0f0np0"},
		"one plane of four":       {"xdr", set("smi1", PortChange{Port: 3, State: "DOWN"}), "mlx5_0/1 ACTIVE LinkUp 800G sm=true downed=0, smi1/1 ACTIVE LinkUp 200G sm=true downed=0, smi1/2 ACTIVE LinkUp 200G sm=true downed=0, smi1/3 DOWN Polling 10G sm=false downed=1, smi1/4 ACTIVE LinkUp 200G sm=true downed=0, ibp24s0"},
		"out":                     {"mixed", func(e *Engine) error { return e.UnplugNIC("mlx5_0", 0) }, "absent"},
		"renamed":                 {"mixed", func(e *Engine) error { return e.RenameInterface("mlx5_0", "ib0") }, "mlx5_0/1 ACTIVE LinkUp 400G sm=true downed=0, ib0"},
		"moved away":              {"mixed", func(e *Engine) error { return e.RenameInterface("mlx5_0", "") }, "mlx5_0/1 ACTIVE LinkUp 400G sm=true downed=0, "},
		"links up after plugging": {"mixed", downOutIn, "mlx5_0/1 ACTIVE LinkUp 400G sm=true downed=0, ibp58s0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := nicEngine(t, tc.server, Options{})
			before := e.Snapshot()
			first := describe(before.NICs[0])
			if err := tc.do(e); err != nil {
				t.Fatal(err)
			}
			if got := describe(e.Snapshot().NICs[0]); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if got := describe(before.NICs[0]); got != first {
				t.Errorf("the state before is now %s, was %s", got, first)
			}
			if diff := cmp.Diff(before.NICs[1:], e.Snapshot().NICs[1:]); diff != "" {
				t.Errorf("the other NICs changed:\n%s", diff)
			}
		})
	}
}

func downOutIn(e *Engine) error {
	for _, do := range []func() error{
		func() error { return e.SetPort("mlx5_0", PortChange{State: "DOWN"}) },
		func() error { return e.UnplugNIC("mlx5_0", 0) },
		func() error { return e.PlugNIC("mlx5_0") },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// A link that flaps is seen down in between, and stays so for the time asked for.
func TestFlapIsSeen(t *testing.T) {
	var states []string
	e, slept := nicEngine(t, "mixed", Options{Observe: func(s Snapshot) { states = append(states, s.NICs[1].RDMA[0].Ports[0].State) }})
	if err := e.Flap("mlx5_1", 0, 2, time.Second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ACTIVE", "DOWN", "ACTIVE", "DOWN", "ACTIVE"}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if want := slices.Repeat([]time.Duration{time.Second}, 3); !slices.Equal(want, *slept) {
		t.Errorf("waited %v, want %v", *slept, want)
	}
}

// A NIC that is late comes by itself, also if the daemon ended meanwhile.
func TestLateNIC(t *testing.T) {
	came := make(chan string, 9)
	watch := func(s Snapshot) {
		if !s.NICs[0].Absent && s.NICs[0].Returns == nil {
			came <- describe(s.NICs[0])
		}
	}
	e, _ := nicEngine(t, "mixed", Options{Observe: watch})
	fresh := <-came
	if err := e.UnplugNIC("mlx5_0", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != fresh {
		t.Errorf("came back as %s, was %s", got, fresh)
	}
	file := filepath.Join(t.TempDir(), "state")
	e, _ = nicEngine(t, "mixed", Options{StateFile: file})
	if err := e.UnplugNIC("mlx5_0", time.Hour); err != nil {
		t.Fatal(err)
	}
	// As if the hour had passed while no engine was there.
	now := e.Snapshot()
	s := now.clone()
	s.NICs[0].Returns = new(time.Now().Add(-time.Minute))
	if err := saveState(file, s); err != nil {
		t.Fatal(err)
	}
	nicEngine(t, "mixed", Options{StateFile: file, Observe: watch})
	if got := <-came; got != fresh {
		t.Errorf("came back after a restart as %s, was %s", got, fresh)
	}
}

func TestVFs(t *testing.T) {
	e, _ := nicEngine(t, "dgx-h100", Options{})
	functions := func() []string {
		var out []string
		for _, n := range e.Snapshot().PresentNICs() {
			out = append(out, fmt.Sprintf("%s %s %s", n.PCI, n.RDMA[0].Name, n.Interface))
		}
		return out
	}
	before := functions()
	if err := e.SetVFs("mlx5_1", 2); err != nil {
		t.Fatal(err)
	}
	want := slices.Insert(slices.Clone(before), 2, "0000:29:00.1 mlx5_10 enp41s0f0v0", "0000:29:00.2 mlx5_11 enp41s0f0v1")
	if diff := cmp.Diff(want, functions()); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	vf := e.Snapshot().NICs[3]
	if vf.Parent != "0000:29:00.0" || vf.Function != 2 || vf.RDMA[0].HCAType != "MT4126" || vf.RDMA[0].Verbs.Minor != 192+11 {
		t.Errorf("virtual function %+v", vf)
	}
	if got := vf.PCIeRoot; got != "pci0000:26" {
		t.Errorf("at %s", got)
	}
	if err := e.SetVFs("mlx5_1", 3); err == nil || !strings.Contains(err.Error(), "EBUSY") {
		t.Errorf("another number: %v", err)
	}
	if err := e.SetVFs("mlx5_1", 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, functions()); diff != "" {
		t.Errorf("after removal (-want +got):\n%s", diff)
	}
}

// Virtual functions go with the physical one, and only a reboot makes those again
// that are there from the start.
func TestUnplugTakesVFs(t *testing.T) {
	e, _ := nicEngine(t, "roce-vf", Options{})
	all := e.Snapshot().NICs
	if err := e.UnplugNIC("mlx5_0", 0); err != nil {
		t.Fatal(err)
	}
	if got := e.Snapshot().PresentNICs(); len(got) != 5 || got[0].PCI != "0000:b8:00.0" {
		t.Errorf("left: %v", got)
	}
	if err := e.Reboot(); err != nil {
		t.Fatal(err)
	}
	if got := e.Snapshot().PresentNICs(); len(got) != 5 {
		t.Errorf("after a reboot: %v", got)
	}
	if err := e.PlugNIC("0000:18:00.0"); err != nil {
		t.Fatal(err)
	}
	if got := e.Snapshot().VFs("0000:18:00.0"); len(got) != 0 {
		t.Errorf("plugged with virtual functions %v", got)
	}
	if err := e.Reboot(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, e.Snapshot().NICs); diff != "" {
		t.Errorf("after another reboot (-want +got):\n%s", diff)
	}
}

func TestRoutes(t *testing.T) {
	e, _ := nicEngine(t, "mixed", Options{})
	routes := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, e.Snapshot().Network.DefaultRoutes); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	}
	routes("eth0")
	if err := e.SetDefaultRoutes([]string{"ibp58s0", "eth0"}); err != nil {
		t.Fatal(err)
	}
	if err := e.RenameInterface("mlx5_0", "ib0"); err != nil {
		t.Fatal(err)
	}
	routes("ib0", "eth0")
	if err := e.SetExclusiveRDMA(true); err != nil || !e.Snapshot().Network.ExclusiveRDMA {
		t.Errorf("exclusive: %v", err)
	}
	if err := e.Reboot(); err != nil {
		t.Fatal(err)
	}
	routes("eth0")
}

// State is kept over restarts; one from before there were NICs gets them.
func TestNICsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	e, _ := nicEngine(t, "roce-vf", Options{StateFile: file})
	for _, err := range []error{
		e.SetVFs("mlx5_0", 0), e.SetPort("mlx5_1", PortChange{State: "DOWN"}), e.RenameInterface("mlx5_6", "inner0"),
		e.SetDefaultRoutes([]string{"inner0"}), e.UnplugNIC("mlx5_7", 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := e.Snapshot()
	e, _ = nicEngine(t, "roce-vf", Options{StateFile: file})
	if diff := cmp.Diff(want, e.Snapshot()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	old := want.clone()
	old.NICs = nil
	if err := saveState(file, old); err != nil {
		t.Fatal(err)
	}
	e, _ = nicEngine(t, "roce-vf", Options{StateFile: file})
	if diff := cmp.Diff(e.Server().Node().NICs, e.Snapshot().PresentNICs()); diff != "" {
		t.Errorf("of an old state (-want +got):\n%s", diff)
	}
}

func TestNICChangesAreRefused(t *testing.T) {
	yes := true
	tests := map[string]struct {
		do   func(*Engine) error
		want string
	}{
		"no such NIC":       {func(e *Engine) error { return e.PlugNIC("mlx5_99") }, `NIC "mlx5_99": there is no such NIC; there are 0000:18:00.0,`},
		"no name":           {func(e *Engine) error { return e.PlugNIC("") }, `NIC "": there is no such NIC`},
		"there already":     {func(e *Engine) error { return e.PlugNIC("mlx5_0") }, "NIC mlx5_0: it is there already"},
		"no such state":     {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{State: "UP"}) }, `state "UP" of a port is not known: use one of NOP, DOWN`},
		"no such physical":  {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{PhysicalState: "Up"}) }, `physical state "Up" of a port is not known`},
		"no such port":      {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{Port: 2, State: "DOWN"}) }, "mlx5_0 has no port 2: it has 1"},
		"INIT on Ethernet":  {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{State: "INIT"}) }, "port 1 is an Ethernet port"},
		"SM on Ethernet":    {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{SubnetManager: &yes}) }, "port 1 is an Ethernet port"},
		"negative rate":     {func(e *Engine) error { return e.SetPort("mlx5_0", PortChange{GigabitsPerSecond: -1}) }, "must not be negative"},
		"flap never":        {func(e *Engine) error { return e.Flap("mlx5_0", 0, 0, 0) }, "both must be positive"},
		"negative time":     {func(e *Engine) error { return e.UnplugNIC("mlx5_0", -1) }, "must not be negative"},
		"name too long":     {func(e *Engine) error { return e.RenameInterface("mlx5_0", "abcdefghijklmnop") }, "at most 15 characters"},
		"name taken":        {func(e *Engine) error { return e.RenameInterface("mlx5_0", "enp184s0f0np0") }, "there is an interface enp184s0f0np0 already"},
		"management's name": {func(e *Engine) error { return e.RenameInterface("mlx5_0", "eth0") }, "there is an interface eth0 already"},
		"route to nowhere":  {func(e *Engine) error { return e.SetDefaultRoutes([]string{"wlan0"}) }, `default route over "wlan0"`},
		"VFs of a VF":       {func(e *Engine) error { return e.SetVFs("mlx5_2", 1) }, "only physical ones"},
		"too many VFs":      {func(e *Engine) error { return e.SetVFs("mlx5_0", 17) }, "it cannot have 17 virtual functions: 0 to 16"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := nicEngine(t, "roce-vf", Options{})
			before := e.Snapshot()
			if err := tc.do(e); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, e.Snapshot()); diff != "" {
				t.Errorf("something changed:\n%s", diff)
			}
		})
	}
	e, _ := nicEngine(t, "mixed", Options{})
	if err := e.UnplugNIC("mlx5_0", 0); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{e.UnplugNIC("mlx5_0", 0), e.SetVFs("mlx5_0", 1)} {
		if err == nil || !strings.Contains(err.Error(), "it is not there") {
			t.Errorf("of one that is out: %v", err)
		}
	}
}
