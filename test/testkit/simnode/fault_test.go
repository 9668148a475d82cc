package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// codes are what one call returns time after time.
func codes(n int, call func() nvml.Return) []nvml.Return {
	var out []nvml.Return
	for range n {
		out = append(out, call())
	}
	return out
}

// Faults reach a client in another process, and end.
func TestFaults(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	d, l40s := gpu(t, lib, 0), gpu(t, lib, 1)
	enable(t, d)
	gi := make1g(t, d)
	other := make1g(t, d)
	id := func(gi nvml.GpuInstance) string {
		info, ret := gi.GetInfo()
		check(t, "GetInfo", ret)
		return itoa(int(info.Id))
	}
	tests := map[string]struct {
		fault []string
		call  func() nvml.Return
		want  []nvml.Return
	}{
		"for ever (MIGD-01)": {
			[]string{"--call=nvmlGpuInstanceDestroy", "--return=NO_PERMISSION"}, gi.Destroy,
			[]nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION},
		},
		"the first call": {
			[]string{"--call=nvmlGpuInstanceDestroy", "--return=NO_PERMISSION", "--times=1"}, gi.Destroy,
			[]nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.ERROR_IN_USE},
		},
		"one instance (MIGD-08)": {
			[]string{"--call=nvmlGpuInstanceDestroy", "--gpu=0", "--instance=" + id(gi), "--return=NO_PERMISSION"}, other.Destroy,
			[]nvml.Return{nvml.ERROR_IN_USE},
		},
		"another GPU": {
			[]string{"--call=nvmlDeviceGetUUID", "--gpu=0", "--return=GPU_IS_LOST"}, func() nvml.Return { _, ret := l40s.GetUUID(); return ret },
			[]nvml.Return{nvml.SUCCESS},
		},
		"a slow call": {
			[]string{"--call=nvmlDeviceGetUUID", "--delay=1ms"}, func() nvml.Return { _, ret := d.GetUUID(); return ret },
			[]nvml.Return{nvml.SUCCESS},
		},
		"a lookup": {
			[]string{"--call=nvmlDeviceGetHandleByIndex", "--gpu=1", "--return=IRQ_ISSUE"}, func() nvml.Return { _, ret := lib.DeviceGetHandleByIndex(1); return ret },
			[]nvml.Return{nvml.ERROR_IRQ_ISSUE},
		},
		"a call that is not supported (DISC-06)": {
			[]string{"--call=nvmlDeviceGetMemoryInfo", "--return=NOT_SUPPORTED"}, func() nvml.Return { _, ret := d.GetMemoryInfo_v2(); return ret },
			[]nvml.Return{nvml.ERROR_NOT_SUPPORTED},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := n.Fault(tc.fault...)
			if diff := cmp.Diff(tc.want, codes(len(tc.want), tc.call)); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			n.Do("fault", "clear", "--id="+itoa(f.ID))
		})
	}
	if left := len(n.State().GPUs[0].Instances); left != 2 {
		t.Errorf("%d instances are left, want 2", left)
	}
}

// MIGC-04: the call succeeds and nothing happens, or only at a reset.
func TestModeOnlyPendsMIGC04(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	n.Fault("--call=nvmlDeviceSetMigMode", "--no-effect", "--times=1")
	activation, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	check(t, "SetMigMode without effect", ret)
	check(t, "its activation", activation)
	n.Fault("--call=nvmlDeviceSetMigMode", "--pends", "--times=1")
	activation, ret = d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	check(t, "SetMigMode that pends", ret)
	expect(t, "its activation", activation, nvml.ERROR_RESET_REQUIRED)
	current, pending, ret := d.GetMigMode()
	check(t, "GetMigMode", ret)
	if current != nvml.DEVICE_MIG_DISABLE || pending != nvml.DEVICE_MIG_ENABLE {
		t.Errorf("mode %d, pending %d", current, pending)
	}
	n.Kill()
	n.Await()
	n.Do("reset", "--gpu=0")
	current, pending, ret = d.GetMigMode()
	check(t, "GetMigMode after a reset", ret)
	if current != nvml.DEVICE_MIG_ENABLE || pending != nvml.DEVICE_MIG_ENABLE {
		t.Errorf("mode %d, pending %d after a reset", current, pending)
	}
}

// A call is held until somebody lets it go, and nothing happens before.
func TestBlockedCallPREP06(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	enable(t, d)
	before := n.Stats().Changes
	f := n.Fault("--call=nvmlDeviceCreateGpuInstance", "--block")
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	check(t, "profile", ret)
	made := make(chan nvml.Return)
	go func() {
		_, ret := d.CreateGpuInstance(&info)
		made <- ret
	}()
	n.AwaitHeld(f)
	if left := len(n.State().GPUs[0].Instances); left != 0 {
		t.Errorf("%d instances while the call is held", left)
	}
	if _, ret := d.GetUUID(); ret != nvml.SUCCESS {
		t.Errorf("another call meanwhile: %v", ret)
	}
	n.Do("fault", "release", "--id="+itoa(f.ID))
	expect(t, "the held call", <-made, nvml.SUCCESS)
	if got := n.Stats().Changes - before; got != 1 {
		t.Errorf("%d calls to change something, want 1", got)
	}
}

func TestDriverGoesAndComes(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	for _, unload := range [][]string{{"driver", "unload"}, {"driver", "unload", "--nodes"}} {
		n.Do(unload...)
		_, ret := lib.DeviceGetCount()
		expect(t, "count without a driver", ret, nvml.ERROR_DRIVER_NOT_LOADED)
		if _, code := smi(t, n.SMI, "-L"); code != 9 {
			t.Errorf("nvidia-smi without a driver: exit code %d", code)
		}
		n.Do("driver", "load")
		count, ret := lib.DeviceGetCount()
		check(t, "count with a driver again", ret)
		if count != 2 {
			t.Errorf("%d GPUs", count)
		}
	}
	n.Do("driver", "mismatch")
	_, ret := lib.DeviceGetCount()
	check(t, "count of a client from before the update", ret)
	if out, code := smi(t, n.SMI, "-L"); code == 0 {
		t.Errorf("nvidia-smi with another library than driver (UPGR-05): %s", out)
	}
	n.Do("driver", "load")
	for _, version := range []string{"595.58.03", "580.x-dev", "6.19.14.31400000", ""} {
		n.Do("driver", "set", "--version="+version)
		got, ret := lib.SystemGetDriverVersion()
		check(t, "version", ret)
		if got != version {
			t.Errorf("version %q (SLICE-02), want %q", got, version)
		}
	}
}

func TestBusIDForms(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	for form, want := range map[string]string{"": "00000000:3B:00.0", "short": "0000:3B:00.0", "lower": "00000000:3b:00.0", "kernel": "0000:3b:00.0", "missing": ""} {
		n.Do("driver", "set", "--bus-ids="+form)
		info, ret := d.GetPciInfo()
		check(t, "GetPciInfo", ret)
		if got := text(info.BusId[:]); got != want {
			t.Errorf("form %q: bus id %q, want %q", form, got, want)
		}
	}
}

// MIGD-05: a client that has been there all the time finds a device by index that
// is gone, until it begins anew.
func TestStaleIndexMIGD05(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := nvml.New(nvml.WithLibraryPath(n.Library))
	check(t, "Init", lib.Init())
	d := gpu(t, lib, 0)
	enable(t, d)
	make1g(t, d)
	n.Fault("--call=nvmlDeviceGetMigDeviceHandleByIndex", "--stale")
	before := n.State().GPUs[0].Instances[0]
	n.Do("destroy-instance", "--gpu=0", "--id="+itoa(before.ID))
	stale, ret := d.GetMigDeviceHandleByIndex(0)
	check(t, "by index", ret)
	if uuid, _ := stale.GetUUID(); uuid != before.Compute[0].UUID {
		t.Errorf("UUID %s, want the one that is gone, %s", uuid, before.Compute[0].UUID)
	}
	_, ret = d.GetGpuInstanceById(before.ID)
	expect(t, "by id", ret, nvml.ERROR_NOT_FOUND)
	check(t, "Shutdown", lib.Shutdown())
	check(t, "Init anew", lib.Init())
	_, ret = gpu(t, lib, 0).GetMigDeviceHandleByIndex(0)
	expect(t, "by index, begun anew", ret, nvml.ERROR_NOT_FOUND)
	check(t, "Shutdown", lib.Shutdown())
}

func TestBootIDREST01(t *testing.T) {
	n := simnode.Start(t, "mixed")
	path := filepath.Join(n.ProcRoot, "sys/kernel/random/boot_id")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n.Restart()
	if again, err := os.ReadFile(path); err != nil || string(again) != string(before) {
		t.Errorf("boot id %q after a restart of the simulator, before %q: %v", again, before, err)
	}
	n.Do("reboot")
	after, err := os.ReadFile(path)
	if err != nil || string(after) == string(before) || strings.TrimSpace(string(after)) != n.State().BootID {
		t.Errorf("boot id %q after a reboot, before %q: %v", after, before, err)
	}
}
