package simnode_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

func itoa(n int) string { return strconv.Itoa(n) }

func counts(t *testing.T, lib nvml.Interface, want int) {
	t.Helper()
	count, ret := lib.DeviceGetCount()
	check(t, "DeviceGetCount", ret)
	if count != want {
		t.Fatalf("%d GPUs, want %d", count, want)
	}
}

func minor(t *testing.T, d nvml.Device) int {
	t.Helper()
	m, ret := d.GetMinorNumber()
	check(t, "GetMinorNumber", ret)
	return m
}

// DISC-12: the count changes under a client that stays, the other GPU does not.
func TestHotPlugDISC12(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	h100, l40s := gpu(t, lib, 0), gpu(t, lib, 1)
	uuid, ret := l40s.GetUUID()
	check(t, "GetUUID", ret)
	n.Do("unplug", "--gpu=0")
	counts(t, lib, 1)
	_, ret = h100.GetUUID()
	expect(t, "a call about the one that is out", ret, nvml.ERROR_GPU_IS_LOST)
	if got, _ := gpu(t, lib, 0).GetUUID(); got != uuid || minor(t, l40s) != 1 {
		t.Errorf("the other one is %s with minor %d", got, minor(t, l40s))
	}
	if _, err := os.Stat(filepath.Join(n.DevRoot, "dev/nvidia0")); err == nil {
		t.Error("its device node is there")
	}
	n.Do("plug", "--gpu=0")
	counts(t, lib, 2)
	if _, ret := h100.GetUUID(); ret != nvml.SUCCESS {
		t.Errorf("plugged in again: %v", ret)
	}
	n.Do("replace", "--gpu=0")
	_, ret = h100.GetUUID()
	expect(t, "the handle of the one that was replaced", ret, nvml.ERROR_GPU_IS_LOST)
	again, ret := lib.DeviceGetHandleByPciBusId("0000:3b:00.0")
	check(t, "by the same address", ret)
	if got, _ := again.GetUUID(); got != n.State().GPUs[0].UUID || got == n.Server.Node().GPUs[0].UUID {
		t.Errorf("the new one is %s", got)
	}
}

func TestLostGPUDISC08(t *testing.T) {
	n := simnode.Start(t, "dgx-h100")
	lib := open(t, n)
	enable(t, gpu(t, lib, 3))
	d := gpu(t, lib, 3)
	gi := make1g(t, d)
	n.Do("lose", "--gpu=3")
	n.Kill()
	n.Await()
	counts(t, lib, 8)
	lookups := map[string]func() (nvml.Device, nvml.Return){
		"index":   func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByIndex(3) },
		"UUID":    func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(n.Server.Node().GPUs[3].UUID) },
		"address": func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId(string(n.Server.GPUs[3].PCI)) },
	}
	for by, lookup := range lookups {
		_, ret := lookup()
		expect(t, "by "+by, ret, nvml.ERROR_GPU_IS_LOST)
	}
	_, _, ret := d.GetMigMode()
	expect(t, "MIG mode", ret, nvml.ERROR_GPU_IS_LOST)
	expect(t, "destroy", gi.Destroy(), nvml.ERROR_GPU_IS_LOST)
	for _, other := range []int{0, 2, 4, 7} {
		if _, ret := gpu(t, lib, other).GetUUID(); ret != nvml.SUCCESS {
			t.Errorf("GPU %d: %v", other, ret)
		}
	}
	n.Do("reboot")
	if _, ret := gpu(t, lib, 3).GetUUID(); ret != nvml.SUCCESS {
		t.Errorf("after a reboot: %v", ret)
	}
}

// SYSF-06: the index is not the minor, and the minor does not stay.
func TestMinorsSYSF06(t *testing.T) {
	n := simnode.Start(t, "mixed", simnode.WithFlags("--minors=3,0", "--minors-move"))
	lib := open(t, n)
	h100, l40s := gpu(t, lib, 0), gpu(t, lib, 1)
	if minor(t, h100) != 3 || minor(t, l40s) != 0 {
		t.Errorf("minors %d and %d", minor(t, h100), minor(t, l40s))
	}
	enable(t, h100)
	if minor(t, h100) != 4 {
		t.Errorf("minor %d after a change of mode, want 4", minor(t, h100))
	}
	make1g(t, h100)
	g := n.State().GPUs[0]
	for _, node := range append(capabilities(g, g.Instances[0]), "nvidia4", "nvidia0") {
		if _, err := os.Stat(filepath.Join(n.DevRoot, "dev", node)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(n.DevRoot, "dev/nvidia3")); err == nil {
		t.Error("the device node with the old minor is there")
	}
	n.Restart(simnode.WithFlags("--minors-move"))
	if diff := cmp.Diff(g, n.State().GPUs[0]); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestVirtualMachine(t *testing.T) {
	n := simnode.Start(t, "mixed", simnode.WithFlags("--virtualization=vgpu"))
	d := gpu(t, open(t, n), 0)
	mode, ret := d.GetVirtualizationMode()
	check(t, "GetVirtualizationMode", ret)
	if mode != nvml.GPU_VIRTUALIZATION_MODE_VGPU {
		t.Errorf("virtualization mode %d", mode)
	}
	_, _, ret = d.GetMigMode()
	expect(t, "MIG mode in a guest (DISC-01)", ret, nvml.ERROR_NOT_SUPPORTED)
}

// MIGD-01: what runs on an instance keeps it, and so does the moment after.
func TestInUseMIGD01(t *testing.T) {
	n := simnode.Start(t, "mixed", simnode.WithFlags("--in-use-after-destroy=1h"))
	d := gpu(t, open(t, n), 0)
	enable(t, d)
	gi := make1g(t, d)
	id := n.State().GPUs[0].Instances[0].ID
	ci, ret := gi.GetComputeInstanceById(0)
	check(t, "GetComputeInstanceById", ret)
	n.Do("load", "--gpu=0", "--instance="+itoa(id))
	expect(t, "destroy under a process", ci.Destroy(), nvml.ERROR_IN_USE)
	n.Do("unload", "--gpu=0")
	check(t, "destroy after the process", ci.Destroy())
	expect(t, "destroy a moment later", gi.Destroy(), nvml.ERROR_IN_USE)
	n.Restart()
	check(t, "destroy much later", gi.Destroy())
}

// A node that comes late is seen by a client that was there before (DISC-05).
func TestLateDeviceNode(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	n.Do("files", "spoil", "--path=dev/nvidia1", "--missing")
	counts(t, lib, 1)
	n.Do("files", "clear")
	counts(t, lib, 2)
	n.Do("files", "spoil", "--path=dev/nvidia-caps/nvidia-cap1", "--missing")
	_, ret := gpu(t, lib, 0).SetMigMode(nvml.DEVICE_MIG_ENABLE)
	expect(t, "change without the right (INST-04)", ret, nvml.ERROR_NO_PERMISSION)
}
