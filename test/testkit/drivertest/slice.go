package drivertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// smallest is the plain profile with the fewest memory slices.
func (s suite) smallest() mig.Profile {
	return slices.MinFunc(s.gpu.MIG.Profiles, func(a, b mig.Profile) int {
		return a.Placements[0].Size - b.Placements[0].Size
	})
}

func (s suite) testMode(t *testing.T) {
	ctx, id, p := t.Context(), s.gpu.ID(), s.smallest()
	t.Cleanup(func() { s.restore(t) })
	if !s.gpu.MIG.Switchable {
		s.testPendingMode(t)
		return
	}
	for _, on := range []bool{true, false, true} {
		must(t, "SetMIGMode", s.driver.SetMIGMode(ctx, id, on))
		current, pending, err := s.driver.MIGMode(ctx, id)
		if err != nil || current != on || pending != on {
			t.Fatalf("MIGMode = %t, %t, %v, want %t", current, pending, err, on)
		}
		if diff := cmp.Diff(s.gpu.MIG.Profiles, s.profiles(t)); diff != "" {
			t.Errorf("the profiles depend on the mode (-before +now):\n%s", diff)
		}
		if !on {
			s.live(t)
			_, err := s.driver.CreateGPUInstance(ctx, id, p.Enum, p.Placements[0])
			fails(t, "create with MIG mode off", err, hardware.ErrNotSupported)
		}
	}
	s.create(t, p, p.Placements[0])
	fails(t, "switch MIG off with an instance", s.driver.SetMIGMode(ctx, id, false), hardware.ErrInUse)
}

// testPendingMode: where a change takes a reset it pends, and asking for the present
// mode takes that back.
func (s suite) testPendingMode(t *testing.T) {
	ctx, id, now := t.Context(), s.gpu.ID(), s.gpu.MIG.Enabled
	fails(t, "SetMIGMode", s.driver.SetMIGMode(ctx, id, !now), hardware.ErrResetRequired)
	if current, pending, err := s.driver.MIGMode(ctx, id); err != nil || current != now || pending == now {
		t.Errorf("MIGMode = %t, %t, %v, want %t and a change", current, pending, err, now)
	}
	must(t, "SetMIGMode", s.driver.SetMIGMode(ctx, id, now))
	if current, pending, err := s.driver.MIGMode(ctx, id); err != nil || current != now || pending != now {
		t.Errorf("MIGMode = %t, %t, %v, want %t and no change", current, pending, err, now)
	}
}

func (s suite) profiles(t *testing.T) []mig.Profile {
	t.Helper()
	g, ok := read(t, s.driver).GPU(s.gpu.PCI)
	if !ok || g.MIG == nil {
		t.Fatalf("GPU %s is gone or cannot do MIG any more", s.gpu.ID())
	}
	return g.MIG.Profiles
}

// testSlice takes one slice through its life, and through all that is wrong at
// each point of it.
func (s suite) testSlice(t *testing.T) {
	s.enable(t)
	ctx, id, p := t.Context(), s.gpu.ID(), s.smallest()
	at := mig.Starts(p, s.gpu.MIG.Profiles)[0]
	gi, err := s.driver.CreateGPUInstance(ctx, id, p.Enum, at)
	must(t, "create GPU instance", err)
	if gi.Placement != at || gi.ProfileID != p.ID || len(gi.Compute) > 0 {
		t.Errorf("asked for profile ID %d at %v, got %+v", p.ID, at, gi)
	}
	s.live(t, gi)
	_, err = s.driver.CreateGPUInstance(ctx, id, p.Enum, at)
	fails(t, "create in the same place", err, hardware.ErrInsufficientResources)

	ci, err := s.driver.CreateComputeInstance(ctx, id, gi.ID, 0)
	must(t, "create compute instance", err)
	if !strings.HasPrefix(ci.UUID, "MIG-") {
		t.Errorf("MIG UUID %q", ci.UUID)
	}
	_, err = s.driver.CreateComputeInstance(ctx, id, gi.ID, 0)
	fails(t, "create a second compute instance", err, hardware.ErrInsufficientResources)
	gi.Compute = []hardware.ComputeInstance{ci}
	s.live(t, gi)
	s.checkSliceNodes(t, gi)

	fails(t, "destroy a GPU instance with a compute instance", s.driver.DestroyGPUInstance(ctx, id, gi.ID), hardware.ErrInUse)
	s.destroy(t, gi)
	fails(t, "destroy again", s.driver.DestroyGPUInstance(ctx, id, gi.ID), hardware.ErrNotFound)
	fails(t, "destroy compute instance again", s.driver.DestroyComputeInstance(ctx, id, gi.ID, ci.ID), hardware.ErrNotFound)
	_, err = s.driver.CreateComputeInstance(ctx, id, gi.ID, 0)
	fails(t, "create compute instance of nothing", err, hardware.ErrNotFound)
	_, err = s.driver.MIGDeviceNodes(ctx, id, gi.ID, []int{ci.ID})
	if err == nil {
		t.Error("an instance that is gone has device nodes")
	}
	again := s.create(t, p, at)
	if again.Compute[0].UUID == ci.UUID {
		t.Errorf("a new MIG device has the old one's UUID %s", ci.UUID)
	}
	s.destroy(t, again)
	s.live(t)
}

// checkSliceNodes wants the GPU's nodes and two more.
func (s suite) checkSliceNodes(t *testing.T, gi hardware.Instance) {
	t.Helper()
	whole, err := s.driver.DeviceNodes(t.Context(), s.gpu.ID())
	must(t, "DeviceNodes", err)
	nodes, err := s.driver.MIGDeviceNodes(t.Context(), s.gpu.ID(), gi.ID, []int{gi.Compute[0].ID})
	must(t, "MIGDeviceNodes", err)
	if len(nodes) != len(whole)+2 || !cmp.Equal(whole, nodes[:len(whole)]) {
		t.Fatalf("nodes of the slice %v, of its GPU %v", nodes, whole)
	}
	gpuCap, computeCap := nodes[len(whole)], nodes[len(whole)+1]
	if gpuCap == computeCap || gpuCap.Major != computeCap.Major || gpuCap.Major == whole[0].Major {
		t.Errorf("capability nodes %v and %v", gpuCap, computeCap)
	}
}

// testPlacements makes each profile at each of its placements on an empty GPU,
// and finds it again.
func (s suite) testPlacements(t *testing.T) {
	s.enable(t)
	for _, p := range s.gpu.MIG.Profiles {
		for _, at := range p.Placements {
			gi := s.create(t, p, at)
			s.live(t, gi)
			s.destroy(t, gi)
		}
	}
	p := s.smallest()
	_, err := s.driver.CreateGPUInstance(t.Context(), s.gpu.ID(), p.Enum, mig.Placement{Start: 99, Size: p.Placements[0].Size})
	if err == nil {
		t.Error("an instance is made at a placement that the GPU does not have")
	}
	s.live(t)
}

// testFull fills the GPU with the smallest profile, then frees one place.
func (s suite) testFull(t *testing.T) {
	s.enable(t)
	p := s.smallest()
	var live []hardware.Instance
	for _, at := range mig.Starts(p, s.gpu.MIG.Profiles)[:p.MaxInstances] {
		live = append(live, s.create(t, p, at))
	}
	s.live(t, live...)
	for _, q := range s.gpu.MIG.Profiles {
		for _, at := range q.Placements {
			_, err := s.driver.CreateGPUInstance(t.Context(), s.gpu.ID(), q.Enum, at)
			overlaps := slices.ContainsFunc(live, func(gi hardware.Instance) bool { return gi.Placement.Overlaps(at) })
			if overlaps && !errors.Is(err, hardware.ErrInsufficientResources) {
				t.Errorf("create %s at %d on a full GPU: %v", q.Name, at.Start, err)
			}
		}
	}
	// MIGD-08: only the one that is meant goes, the others stay as they are.
	s.destroy(t, live[3])
	live[3] = s.create(t, p, live[3].Placement)
	s.live(t, live...)
}
