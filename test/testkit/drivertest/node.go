package drivertest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

func (s suite) testNode(t *testing.T) {
	if diff := cmp.Diff(s.node, read(t, s.driver)); diff != "" {
		t.Errorf("two reads differ:\n%s", diff)
	}
	sorted := s.node
	sorted.GPUs = slices.Clone(s.node.GPUs)
	sorted.Sort()
	if diff := cmp.Diff(sorted, s.node); diff != "" {
		t.Errorf("GPUs are not in order (-want +got):\n%s", diff)
	}
	uuids, minors := map[string]bool{}, map[int]bool{}
	for _, g := range s.node.GPUs {
		if uuids[g.UUID] || minors[g.Minor] {
			t.Errorf("GPU %s shares UUID or minor %d with another", g.ID(), g.Minor)
		}
		uuids[g.UUID], minors[g.Minor] = true, true
		if addr, err := hardware.ParsePCIAddress(string(g.PCI)); err != nil || addr != g.PCI {
			t.Errorf("PCI address %q is not in the kernel's form: %v", g.PCI, err)
		}
		if g.UUID == "" || g.ProductName == "" || g.MemoryMiB <= 0 {
			t.Errorf("GPU %s is incomplete: %+v", g.ID(), g)
		}
		if g.MIG != nil {
			checkProfiles(t, g)
		}
	}
}

func checkProfiles(t *testing.T, g hardware.GPU) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range g.MIG.Profiles {
		if names[p.Name] {
			t.Errorf("GPU %s has two profiles called %s", g.ID(), p.Name)
		}
		names[p.Name] = true
		if p.Slices == 0 || p.MemoryMiB == 0 || p.MaxInstances == 0 || len(p.Placements) == 0 {
			t.Errorf("GPU %s: profile %s is incomplete: %+v", g.ID(), p.Name, p)
		}
		if !slices.IsSortedFunc(p.Placements, func(a, b mig.Placement) int { return a.Start - b.Start }) {
			t.Errorf("GPU %s: placements of %s are not in order: %v", g.ID(), p.Name, p.Placements)
		}
	}
}

// testIdentity asks for GPUs that are not there, at an address and with a UUID.
func (s suite) testIdentity(t *testing.T) {
	for _, tc := range []struct {
		gpu  hardware.GPUID
		want error
	}{
		{gpu: hardware.GPUID{PCI: s.gpu.PCI, UUID: "GPU-00000000-0000-0000-0000-000000000000"}, want: hardware.ErrReplaced},
		{gpu: hardware.GPUID{PCI: "0000:ff:1f.0", UUID: s.gpu.UUID}, want: hardware.ErrNotFound},
	} {
		ctx, gpu, p := t.Context(), tc.gpu, s.gpu.MIG.Profiles[0]
		_, err := s.driver.CreateGPUInstance(ctx, gpu, p.Enum, p.Placements[0])
		fails(t, "CreateGPUInstance", err, tc.want)
		_, err = s.driver.CreateComputeInstance(ctx, gpu, 0, 0)
		fails(t, "CreateComputeInstance", err, tc.want)
		fails(t, "DestroyComputeInstance", s.driver.DestroyComputeInstance(ctx, gpu, 0, 0), tc.want)
		fails(t, "DestroyGPUInstance", s.driver.DestroyGPUInstance(ctx, gpu, 0), tc.want)
		fails(t, "SetMIGMode", s.driver.SetMIGMode(ctx, gpu, true), tc.want)
		fails(t, "SetComputeMode", s.driver.SetComputeMode(ctx, gpu, hardware.ComputeModeDefault), tc.want)
		_, err = s.driver.DeviceNodes(ctx, gpu)
		fails(t, "DeviceNodes", err, tc.want)
		_, err = s.driver.Instances(ctx, gpu)
		fails(t, "Instances", err, tc.want)
	}
}

func (s suite) testComputeMode(t *testing.T) {
	prior, err := s.driver.ComputeMode(t.Context(), s.gpu.ID())
	must(t, "ComputeMode", err)
	if s.gpu.MIG.Enabled {
		fails(t, "SetComputeMode with MIG on", s.driver.SetComputeMode(t.Context(), s.gpu.ID(), hardware.ComputeModeProhibited), hardware.ErrNotSupported)
		return
	}
	for _, mode := range []hardware.ComputeMode{hardware.ComputeModeExclusiveProcess, hardware.ComputeModeProhibited, hardware.ComputeModeDefault, prior} {
		must(t, "SetComputeMode", s.driver.SetComputeMode(t.Context(), s.gpu.ID(), mode))
		if got, err := s.driver.ComputeMode(t.Context(), s.gpu.ID()); err != nil || got != mode {
			t.Errorf("ComputeMode = %q, %v, want %q", got, err, mode)
		}
	}
	if err := s.driver.SetComputeMode(t.Context(), s.gpu.ID(), "Sometimes"); err == nil {
		t.Error("an unknown mode is accepted")
	}
}

func (s suite) testDeviceNodes(t *testing.T) {
	seen := map[hardware.DeviceNode]hardware.GPUID{}
	for _, g := range s.node.GPUs {
		nodes, err := s.driver.DeviceNodes(t.Context(), g.ID())
		must(t, "DeviceNodes", err)
		if len(nodes) == 0 || nodes[0].Minor != int64(g.Minor) || nodes[0].Major == 0 {
			t.Errorf("device nodes of %s with minor %d: %v", g.ID(), g.Minor, nodes)
		}
		for _, n := range nodes {
			if other, taken := seen[n]; taken {
				t.Errorf("%v belongs to %s and to %s", n, other, g.ID())
			}
			seen[n] = g.ID()
		}
	}
}

// testWithoutMIG looks at the GPUs that cannot do MIG, if there are any.
func (s suite) testWithoutMIG(t *testing.T) {
	for _, g := range s.node.GPUs {
		if g.MIG != nil {
			continue
		}
		list, err := s.driver.Instances(t.Context(), g.ID())
		if err != nil || len(list) > 0 {
			t.Errorf("Instances of %s = %v, %v", g.ID(), list, err)
		}
		if _, _, err := s.driver.MIGMode(t.Context(), g.ID()); !errors.Is(err, hardware.ErrNotSupported) {
			t.Errorf("MIGMode of %s: %v", g.ID(), err)
		}
		fails(t, "SetMIGMode", s.driver.SetMIGMode(t.Context(), g.ID(), true), hardware.ErrNotSupported)
	}
}
