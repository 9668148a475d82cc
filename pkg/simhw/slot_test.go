package simhw

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

func read(t *testing.T, e *Engine) (hardware.Node, []error) {
	t.Helper()
	n, skipped, err := NewDriver(e).Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n, skipped
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLostGPUDISC08(t *testing.T) {
	e := newEngine(t, "dgx-h100", Options{})
	enable(t, e, 3)
	before, _ := read(t, e)
	lost := before.GPUs[3].ID()
	do(t, e.Lose(3))
	n, skipped := read(t, e)
	if len(n.GPUs) != 7 || len(skipped) != 1 || !errors.Is(skipped[0], hardware.ErrLost) {
		t.Errorf("%d GPUs, skipped %v", len(n.GPUs), skipped)
	}
	d := NewDriver(e)
	if _, err := d.Instances(t.Context(), lost); !errors.Is(err, hardware.ErrLost) {
		t.Errorf("instances of the lost GPU: %v", err)
	}
	if err := d.DestroyGPUInstance(t.Context(), lost, 7); !errors.Is(err, hardware.ErrLost) {
		t.Errorf("destroy on the lost GPU: %v", err)
	}
	if ret := e.Reset(3); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("reset of a lost GPU: %s", CodeName(ret))
	}
	if err := d.SetMIGMode(t.Context(), n.GPUs[0].ID(), true); err != nil {
		t.Errorf("another GPU: %v", err)
	}
	reboot(t, e)
	if n, skipped := read(t, e); len(n.GPUs) != 8 || len(skipped) > 0 {
		t.Errorf("after a reboot %d GPUs, skipped %v", len(n.GPUs), skipped)
	}
}

func TestHotPlugDISC12(t *testing.T) {
	e := newEngine(t, "dgx-h100", Options{})
	before, _ := read(t, e)
	enable(t, e, 2)
	create2 := func() {
		if _, ret := e.CreateGPUInstance(2, id1g, nil); ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
	}
	create2()
	do(t, e.Unplug(2))
	n, _ := read(t, e)
	want := append(append([]hardware.GPU{}, before.GPUs[:2]...), before.GPUs[3:]...)
	if diff := cmp.Diff(want, n.GPUs); diff != "" {
		t.Errorf("the others after one was unplugged (-want +got):\n%s", diff)
	}
	if _, err := NewDriver(e).Instances(t.Context(), before.GPUs[2].ID()); !errors.Is(err, hardware.ErrNotFound) {
		t.Errorf("instances of a GPU that is out: %v", err)
	}
	if err := e.Unplug(2); !errors.Is(err, errEmpty) {
		t.Errorf("unplug twice: %v", err)
	}
	do(t, e.Plug(2))
	if err := e.Plug(2); !errors.Is(err, errTaken) {
		t.Errorf("plug twice: %v", err)
	}
	n, _ = read(t, e)
	if diff := cmp.Diff(before.GPUs, n.GPUs); diff != "" {
		t.Errorf("after it was plugged in again (-want +got):\n%s", diff)
	}
	if left := e.Snapshot().GPUs[2].Instances; len(left) > 0 {
		t.Errorf("instances went out and came back: %+v", left)
	}
	if err := e.Lose(8); !errors.Is(err, errNoSlot) {
		t.Errorf("a slot that is not there: %v", err)
	}
}

func TestReplacedGPU(t *testing.T) {
	e := withMIG(t)
	before, _ := read(t, e)
	do(t, e.Replace(0))
	n, _ := read(t, e)
	if n.GPUs[0].PCI != before.GPUs[0].PCI || n.GPUs[0].UUID == before.GPUs[0].UUID || n.GPUs[0].MIG.Enabled {
		t.Errorf("replaced %+v by %+v", before.GPUs[0], n.GPUs[0])
	}
	if _, _, err := NewDriver(e).MIGMode(t.Context(), before.GPUs[0].ID()); !errors.Is(err, hardware.ErrReplaced) {
		t.Errorf("the one that was there: %v", err)
	}
	first := n.GPUs[0].UUID
	do(t, e.Replace(0))
	if n, _ := read(t, e); n.GPUs[0].UUID == first || n.GPUs[0].UUID == before.GPUs[0].UUID {
		t.Errorf("the third GPU is %s again", n.GPUs[0].UUID)
	}
}

// Lost, absent and replaced are hardware, and outlive the daemon; the driver is
// loaded with it.
func TestSlotsOutliveTheEngine(t *testing.T) {
	e := newEngine(t, "dgx-h100", Options{StateFile: filepath.Join(t.TempDir(), "state")})
	do(t, errors.Join(e.Lose(0), e.Unplug(1), e.Replace(2), e.SetDriver(func(d *DriverState) { d.Unloaded = true })))
	if _, err := e.Load(3, Process{GPUInstance: NoInstance, ComputeInstance: NoInstance}); err != nil {
		t.Fatal(err)
	}
	again := restart(t, e)
	want := e.Snapshot()
	want.Driver.Unloaded = false
	if diff := cmp.Diff(want, again.Snapshot()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestProcesses(t *testing.T) {
	e := withMIG(t)
	in := create(t, e, id1g, 0, 1)
	c, ret := e.CreateComputeInstance(Handle{Serial: in.Serial}, 0, nil)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	p := load(t, e, in.ID, c.ID)
	if ret := e.DestroyComputeInstance(Handle{Serial: c.Serial}); ret != nvml.ERROR_IN_USE {
		t.Errorf("destroy under a process: %s", CodeName(ret))
	}
	if ret := e.Reset(0); ret != nvml.ERROR_IN_USE {
		t.Errorf("reset under a process: %s", CodeName(ret))
	}
	other := create(t, e, id1g, 1, 1)
	if ret := e.DestroyGPUInstance(Handle{Serial: other.Serial}); ret != nvml.SUCCESS {
		t.Errorf("destroy beside a process (MIGD-08): %s", CodeName(ret))
	}
	do(t, e.Unload(0, p.PID))
	if ret := e.DestroyComputeInstance(Handle{Serial: c.Serial}); ret != nvml.SUCCESS {
		t.Errorf("destroy after the process: %s", CodeName(ret))
	}
}

func TestLoadRefuses(t *testing.T) {
	plain := Process{GPUInstance: NoInstance, ComputeInstance: NoInstance}
	tests := map[string]struct {
		prepare func(*Engine)
		try     Process
	}{
		"the whole GPU with MIG on":     {func(e *Engine) { _, _ = e.SetMIGMode(0, true) }, plain},
		"an instance with MIG off":      {func(*Engine) {}, Process{GPUInstance: 7}},
		"an instance that is not there": {func(e *Engine) { _, _ = e.SetMIGMode(0, true) }, Process{GPUInstance: 7}},
		"the same process twice":        {func(e *Engine) { _, _ = e.Load(0, Process{PID: 9, GPUInstance: NoInstance}) }, Process{PID: 9, GPUInstance: NoInstance}},
		"a second one on an exclusive GPU": {func(e *Engine) {
			_ = e.SetComputeMode(0, nvml.COMPUTEMODE_EXCLUSIVE_PROCESS)
			_, _ = e.Load(0, plain)
		}, plain},
		"any on a prohibited GPU": {func(e *Engine) { _ = e.SetComputeMode(0, nvml.COMPUTEMODE_PROHIBITED) }, plain},
		"a lost GPU":              {func(e *Engine) { _ = e.Lose(0) }, plain},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, "mixed", Options{})
			tc.prepare(e)
			before := len(e.Snapshot().GPUs[0].Processes)
			if _, err := e.Load(0, tc.try); err == nil || len(e.Snapshot().GPUs[0].Processes) != before {
				t.Errorf("taken: %v", err)
			}
		})
	}
	if err := newEngine(t, "mixed", Options{}).Unload(0, 77); err == nil {
		t.Error("a process that does not run was ended")
	}
}
