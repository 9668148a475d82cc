package drivertest_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/nvml"
	"github.com/cleave-dra/cleave/pkg/sysfs"
	"github.com/cleave-dra/cleave/test/testkit/drivertest"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// open is the driver that the node plugin has, on a simulated node in another
// process.
func open(t *testing.T, n *simnode.Node) *nvml.Driver {
	t.Helper()
	d := nvml.New(nvml.Config{DriverRoot: n.Root, DevRoot: n.DevRoot, ProcRoot: n.ProcRoot})
	t.Cleanup(d.Close)
	return d
}

func TestNVML(t *testing.T) {
	for _, server := range []string{"dgx-h100", "mixed"} {
		t.Run(server, func(t *testing.T) { drivertest.Run(t, open(t, simnode.Start(t, server))) })
	}
}

// What is discovered is what the catalog says is there.
func TestDiscovery(t *testing.T) {
	for _, server := range catalog.Servers() {
		t.Run(server, func(t *testing.T) {
			n := simnode.Start(t, server)
			h := host.New(open(t, n), sysfs.New(n.SysRoot).WithProc(n.ProcRoot), t.TempDir())
			got, skipped, err := h.Discover(t.Context())
			if err := errors.Join(append(skipped, err)...); err != nil {
				t.Fatal(err)
			}
			got.NICs, skipped, err = h.NICs(t.Context())
			if err := errors.Join(append(skipped, err)...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(n.Server.Node(), got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// The driver survives a crash of what is below it, with what was made before.
func TestDaemonCrash(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := open(t, n)
	node, _, err := d.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := node.GPUs[0]
	p := g.MIG.Profiles[0]
	err = d.SetMIGMode(t.Context(), g.ID(), true)
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.CreateGPUInstance(t.Context(), g.ID(), p.Enum, p.Placements[0])
	if err != nil {
		t.Fatal(err)
	}
	n.Kill()
	n.Await()
	got, err := d.Instances(t.Context(), g.ID())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hardware.Instance{made}, got); diff != "" {
		t.Errorf("after the crash (-want +got):\n%s", diff)
	}
}

// The simulated driver's files are enough for a spec, and the version that runs
// is the one that is mounted.
func TestCDI(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := open(t, n)
	node, _, err := d.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := d.DeviceNodes(t.Context(), node.GPUs[0].ID())
	if err != nil {
		t.Fatal(err)
	}
	w := cdi.New(cdi.Config{Dir: t.TempDir(), DriverRoot: n.Root, DevRoot: n.DevRoot, DriverVersion: d.DriverVersion})
	names, err := w.Write(t.Context(), "claim-1", []cdi.Device{{Result: 0, Nodes: nodes}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cleave.dev/claim=claim-1-0"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
