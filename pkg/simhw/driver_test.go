package simhw

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

func TestDriver(t *testing.T) {
	ctx := t.Context()
	d := NewDriver(newEngine(t, "mixed", Options{}))
	n, _, err := d.Node(ctx)
	if err != nil {
		t.Fatal(err)
	}
	gpu := n.GPUs[0].ID()
	if err := d.SetMIGMode(ctx, gpu, true); err != nil {
		t.Fatal(err)
	}
	in, err := d.CreateGPUInstance(ctx, gpu, mig.Profile3Slice, mig.Placement{Start: 4, Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	ci, err := d.CreateComputeInstance(ctx, gpu, in.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Instances(ctx, gpu)
	if err != nil {
		t.Fatal(err)
	}
	want := []hardware.Instance{{ID: in.ID, ProfileID: id3g, Placement: mig.Placement{Start: 4, Size: 4}, Compute: []hardware.ComputeInstance{{ID: 0, UUID: ci.UUID}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	nodes, err := d.MIGDeviceNodes(ctx, gpu, in.ID, []int{ci.ID})
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []hardware.DeviceNode{
		{Path: "/dev/nvidia0", Major: 195, Minor: 0},
		{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 3+9*in.ID), Major: 511, Minor: int64(3 + 9*in.ID)},
		{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 4+9*in.ID), Major: 511, Minor: int64(4 + 9*in.ID)},
	}
	if diff := cmp.Diff(wantNodes, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	if err := d.DestroyGPUInstance(ctx, gpu, in.ID); !errors.Is(err, hardware.ErrInUse) {
		t.Errorf("destroy in use: %v", err)
	}
	if err := errors.Join(d.DestroyComputeInstance(ctx, gpu, in.ID, ci.ID), d.DestroyGPUInstance(ctx, gpu, in.ID)); err != nil {
		t.Error(err)
	}
	if err := d.DestroyGPUInstance(ctx, gpu, in.ID); !errors.Is(err, hardware.ErrNotFound) {
		t.Errorf("destroy again: %v", err)
	}
	other := hardware.GPUID{PCI: gpu.PCI, UUID: "GPU-other"}
	if err := d.SetMIGMode(ctx, other, false); !errors.Is(err, hardware.ErrReplaced) {
		t.Errorf("another UUID: %v", err)
	}
}
