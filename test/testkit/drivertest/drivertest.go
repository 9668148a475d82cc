// Package drivertest holds every driver to the same promises: the one that goes
// through NVML to real or simulated hardware, and one that does not.
package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Run tests a driver whose node has at least one GPU that can do MIG and holds no
// instances; if its mode takes a reset to change, it is on. It leaves the hardware as it found it. Whoever runs it on real
// hardware must have the GPUs to themselves.
func Run(t *testing.T, d host.Driver) {
	node := read(t, d)
	i := slices.IndexFunc(node.GPUs, func(g hardware.GPU) bool { return g.MIG != nil })
	if i < 0 {
		t.Fatalf("no GPU can do MIG: %+v", node.GPUs)
	}
	s := suite{driver: d, node: node, gpu: node.GPUs[i]}
	t.Run("node", s.testNode)
	t.Run("identity", s.testIdentity)
	t.Run("compute mode", s.testComputeMode)
	t.Run("device nodes", s.testDeviceNodes)
	t.Run("MIG mode", s.testMode)
	t.Run("without MIG", s.testWithoutMIG)
	t.Run("one slice", s.testSlice)
	t.Run("every placement", s.testPlacements)
	t.Run("full GPU", s.testFull)
	t.Run("nothing left", func(t *testing.T) {
		if diff := cmp.Diff(node, read(t, d)); diff != "" {
			t.Errorf("the node has changed (-before +after):\n%s", diff)
		}
	})
}

type suite struct {
	driver host.Driver
	node   hardware.Node
	gpu    hardware.GPU
}

func read(t *testing.T, d host.Driver) hardware.Node {
	t.Helper()
	node, skipped, err := d.Node(t.Context())
	if err := errors.Join(append(skipped, err)...); err != nil {
		t.Fatalf("Node: %v", err)
	}
	return node
}

// enable switches MIG mode on for one test.
func (s suite) enable(t *testing.T) {
	t.Helper()
	if s.gpu.MIG.Enabled {
		t.Cleanup(func() { s.restore(t) })
		return
	}
	must(t, "switch MIG on", s.driver.SetMIGMode(t.Context(), s.gpu.ID(), true))
	t.Cleanup(func() { s.restore(t) })
}

// restore removes all instances and switches MIG mode back.
func (s suite) restore(t *testing.T) {
	ctx := context.WithoutCancel(t.Context()) // runs as a cleanup
	list, err := s.driver.Instances(ctx, s.gpu.ID())
	must(t, "list instances", err)
	for _, gi := range list {
		for _, ci := range gi.Compute {
			must(t, "destroy compute instance", s.driver.DestroyComputeInstance(ctx, s.gpu.ID(), gi.ID, ci.ID))
		}
		must(t, "destroy GPU instance", s.driver.DestroyGPUInstance(ctx, s.gpu.ID(), gi.ID))
	}
	must(t, "switch MIG back", s.driver.SetMIGMode(ctx, s.gpu.ID(), s.gpu.MIG.Enabled))
}

// create makes both instances of a slice.
func (s suite) create(t *testing.T, p mig.Profile, at mig.Placement) hardware.Instance {
	t.Helper()
	gi, err := s.driver.CreateGPUInstance(t.Context(), s.gpu.ID(), p.Enum, at)
	if err != nil {
		t.Fatalf("create %s at %d: %v", p.Name, at.Start, err)
	}
	ci, err := s.driver.CreateComputeInstance(t.Context(), s.gpu.ID(), gi.ID, 0)
	if err != nil {
		t.Fatalf("create compute instance of %s at %d: %v", p.Name, at.Start, err)
	}
	gi.Compute = []hardware.ComputeInstance{ci}
	return gi
}

func (s suite) destroy(t *testing.T, gi hardware.Instance) {
	t.Helper()
	for _, ci := range gi.Compute {
		must(t, "destroy compute instance", s.driver.DestroyComputeInstance(t.Context(), s.gpu.ID(), gi.ID, ci.ID))
	}
	must(t, "destroy GPU instance", s.driver.DestroyGPUInstance(t.Context(), s.gpu.ID(), gi.ID))
}

// live checks that exactly these instances exist.
func (s suite) live(t *testing.T, want ...hardware.Instance) {
	t.Helper()
	got, err := s.driver.Instances(t.Context(), s.gpu.ID())
	must(t, "list instances", err)
	slices.SortFunc(want, func(a, b hardware.Instance) int { return a.ID - b.ID })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
