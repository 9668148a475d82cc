package simnode_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// make1g makes a 1g instance with its compute instance.
func make1g(t *testing.T, d nvml.Device) nvml.GpuInstance {
	t.Helper()
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	check(t, "profile", ret)
	gi, ret := d.CreateGpuInstance(&info)
	check(t, "create GPU instance", ret)
	ci, ret := gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	check(t, "compute profile", ret)
	_, ret = gi.CreateComputeInstance(&ci)
	check(t, "create compute instance", ret)
	return gi
}

func TestStateAndHandlesOutliveTheDaemon(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	enable(t, d)
	gi := make1g(t, d)
	before := n.State()
	n.Kill()
	// Nobody waited: the socket is still there, and the call waits for its answer.
	info, ret := gi.GetInfo()
	check(t, "GetInfo right after a crash", ret)
	if want := before.GPUs[0].Instances[0].ID; int(info.Id) != want {
		t.Errorf("id %d, want %d", info.Id, want)
	}
	n.Await()
	if diff := cmp.Diff(before, n.State()); diff != "" {
		t.Errorf("state after a crash (-want +got):\n%s", diff)
	}
	n.Restart()
	if diff := cmp.Diff(before, n.State()); diff != "" {
		t.Errorf("state after a restart of all (-want +got):\n%s", diff)
	}
	expect(t, "destroy in use after restarts", gi.Destroy(), nvml.ERROR_IN_USE)
	if _, err := n.Ctl("reboot"); err != nil {
		t.Fatal(err)
	}
	_, ret = gi.GetInfo()
	expect(t, "instance after a reboot", ret, nvml.ERROR_INVALID_ARGUMENT)
	current, _, ret := d.GetMigMode()
	check(t, "MIG mode after a reboot", ret)
	if current != nvml.DEVICE_MIG_DISABLE {
		t.Error("MIG mode survived a reboot; on Hopper it does not")
	}
}

// A client that reads must not notice crashes; one that changes must find, after
// each, that every change was made or was not, and that files agree with that.
func TestCrashesWhileClientsWork(t *testing.T) {
	n := simnode.Start(t, "mixed", simnode.WithLatency(0.05))
	lib := open(t, n)
	d := gpu(t, lib, 0)
	enable(t, d)
	var stop atomic.Bool
	var clients sync.WaitGroup
	clients.Go(func() {
		for !stop.Load() {
			if _, ret := d.GetUUID(); ret != nvml.SUCCESS {
				t.Errorf("a read failed: %v", ret)
				return
			}
		}
	})
	clients.Go(func() {
		for !stop.Load() {
			churn(t, d)
		}
	})
	for range 5 {
		n.Kill()
		n.Await()
	}
	stop.Store(true)
	clients.Wait()
	checkFiles(t, n, n.State().GPUs[0])
	destroyAll(t, d)
	checkFiles(t, n, n.State().GPUs[0])
	if left := n.State().GPUs[0].Instances; len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// churn makes instances until the GPU is full and removes them; a change whose
// answer got lost is unknown, everything else must be right.
func churn(t *testing.T, d nvml.Device) {
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	if ret != nvml.SUCCESS {
		t.Errorf("profile: %v", ret)
		return
	}
	for range 8 {
		_, ret := d.CreateGpuInstance(&info)
		if ret != nvml.SUCCESS && ret != nvml.ERROR_UNKNOWN && ret != nvml.ERROR_INSUFFICIENT_RESOURCES {
			t.Errorf("create: %v", ret)
		}
	}
	all, ret := d.GetGpuInstances(&info)
	if ret != nvml.SUCCESS {
		t.Errorf("list: %v", ret)
	}
	for _, gi := range all {
		if ret := gi.Destroy(); ret != nvml.SUCCESS && ret != nvml.ERROR_UNKNOWN {
			t.Errorf("destroy: %v", ret)
		}
	}
}

func destroyAll(t *testing.T, d nvml.Device) {
	t.Helper()
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	check(t, "profile", ret)
	all, ret := d.GetGpuInstances(&info)
	check(t, "list", ret)
	for _, gi := range all {
		check(t, "destroy", gi.Destroy())
	}
}

// checkFiles compares the capability nodes with the instances.
func checkFiles(t *testing.T, n *simnode.Node, g simhw.GPUState) {
	t.Helper()
	want := map[string]bool{"nvidia-cap1": true, "nvidia-cap2": true}
	for _, in := range g.Instances {
		want[capability(simhw.GPUInstanceMinor(g.Minor, in.ID))] = true
		for _, c := range in.Compute {
			want[capability(simhw.ComputeInstanceMinor(g.Minor, in.ID, c.ID))] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(n.DevRoot, "dev/nvidia-caps"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range entries {
		got[e.Name()] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capability nodes (-want +got):\n%s", diff)
	}
	dirs, _ := filepath.Glob(filepath.Join(n.ProcRoot, "driver/nvidia/capabilities/gpu0/mig/gi*"))
	if len(dirs) != len(g.Instances) {
		t.Errorf("access files of %d GPU instances, want %d", len(dirs), len(g.Instances))
	}
}
