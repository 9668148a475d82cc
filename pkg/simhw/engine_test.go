package simhw

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Profile IDs of the geometry with seven compute slices.
const (
	id1g, id1gMedia, id1gDouble, id2g, id3g, id4g, id7g = 19, 20, 15, 14, 9, 5, 0
)

func newEngine(t *testing.T, server string, o Options) *Engine {
	t.Helper()
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// withMIG is an engine whose first GPU has MIG on.
func withMIG(t *testing.T) *Engine {
	t.Helper()
	e := newEngine(t, "mixed", Options{})
	enable(t, e, 0)
	return e
}

func enable(t *testing.T, e *Engine, gpu int) {
	t.Helper()
	if activation, ret := e.SetMIGMode(gpu, true); activation != nvml.SUCCESS || ret != nvml.SUCCESS {
		t.Fatalf("SetMIGMode: %d, %d", activation, ret)
	}
}

func create(t *testing.T, e *Engine, profile, start, size int) InstanceState {
	t.Helper()
	in, ret := e.CreateGPUInstance(0, profile, &mig.Placement{Start: start, Size: size})
	if ret != nvml.SUCCESS {
		t.Fatalf("create profile %d at %d: %v", profile, start, ret)
	}
	return in
}

func TestCreateGPUInstance(t *testing.T) {
	type made struct{ profile, start, size int }
	tests := map[string]struct {
		before []made
		try    made
		want   nvml.Return
	}{
		"empty":                       {nil, made{id7g, 0, 8}, nvml.SUCCESS},
		"beside":                      {[]made{{id3g, 0, 4}}, made{id3g, 4, 4}, nvml.SUCCESS},
		"same place":                  {[]made{{id3g, 0, 4}}, made{id3g, 0, 4}, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"overlap":                     {[]made{{id1g, 5, 1}}, made{id3g, 4, 4}, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"full":                        {[]made{{id7g, 0, 8}}, made{id1g, 3, 1}, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"media once":                  {[]made{{id1gMedia, 0, 1}}, made{id1gMedia, 1, 1}, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"media beside plain":          {[]made{{id1gMedia, 0, 1}}, made{id1g, 1, 1}, nvml.SUCCESS},
		"1g on the last slice":        {nil, made{id1g, 7, 1}, nvml.ERROR_INVALID_ARGUMENT},
		"double 1g on the last slice": {nil, made{id1gDouble, 6, 2}, nvml.SUCCESS},
		"2g on the last slices":       {nil, made{id2g, 6, 2}, nvml.ERROR_INVALID_ARGUMENT},
		"4g on the right":             {nil, made{id4g, 4, 4}, nvml.ERROR_INVALID_ARGUMENT},
		"wrong size":                  {nil, made{id1g, 0, 2}, nvml.ERROR_INVALID_ARGUMENT},
		"unknown profile":             {nil, made{77, 0, 1}, nvml.ERROR_INVALID_ARGUMENT},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := withMIG(t)
			for _, b := range tc.before {
				create(t, e, b.profile, b.start, b.size)
			}
			in, ret := e.CreateGPUInstance(0, tc.try.profile, &mig.Placement{Start: tc.try.start, Size: tc.try.size})
			if ret != tc.want {
				t.Errorf("got %d, want %d", ret, tc.want)
			}
			if n := len(e.Snapshot().GPUs[0].Instances); (ret == nvml.SUCCESS) != (n == len(tc.before)+1) {
				t.Errorf("%d instances after %d", n, ret)
			}
			if ret == nvml.SUCCESS && in.Placement.Start != tc.try.start {
				t.Errorf("made at %d", in.Placement.Start)
			}
		})
	}
}

func TestNotSupported(t *testing.T) {
	e := newEngine(t, "mixed", Options{})
	if _, ret := e.CreateGPUInstance(0, id1g, nil); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("create with MIG off: %d", ret)
	}
	if _, ret := e.RemainingCapacity(0, id1g); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("capacity with MIG off: %d", ret)
	}
	const l40s = 1
	if _, _, ret := e.MIGMode(l40s); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("MIG mode of an L40S: %d", ret)
	}
	if _, ret := e.SetMIGMode(l40s, true); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("set MIG mode of an L40S: %d", ret)
	}
	if _, ret := e.Profile(l40s, mig.Profile1Slice); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("profile of an L40S: %d", ret)
	}
	if _, ret := e.Profile(0, mig.Profile8Slice); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("8_SLICE of an H100: %d", ret)
	}
	if _, ret := e.Profile(0, nvml.GPU_INSTANCE_PROFILE_COUNT); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("profile beyond the enum: %d", ret)
	}
	if _, ret := e.Profile(7, 0); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("profile of a GPU that is not there: %d", ret)
	}
}

func TestLifecycle(t *testing.T) {
	e := withMIG(t)
	in := create(t, e, id3g, 4, 4)
	gi := Handle{Serial: in.Serial}
	c, ret := e.CreateComputeInstance(gi, 2, nil)
	if ret != nvml.SUCCESS {
		t.Fatalf("create compute instance: %d", ret)
	}
	ci := Handle{Serial: c.Serial}
	if ret := e.DestroyGPUInstance(gi); ret != nvml.ERROR_IN_USE {
		t.Errorf("destroy with a compute instance: %d", ret)
	}
	if activation, ret := e.SetMIGMode(0, false); activation != nvml.ERROR_IN_USE || ret != nvml.ERROR_IN_USE {
		t.Errorf("MIG off with a live instance: %d, %d", activation, ret)
	}
	if ret := e.DestroyComputeInstance(ci); ret != nvml.SUCCESS {
		t.Errorf("destroy compute instance: %d", ret)
	}
	if ret := e.DestroyComputeInstance(ci); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("destroy it again: %d", ret)
	}
	if ret := e.DestroyGPUInstance(gi); ret != nvml.SUCCESS {
		t.Errorf("destroy GPU instance: %d", ret)
	}
	again := create(t, e, id3g, 4, 4)
	if again.ID != in.ID {
		t.Errorf("id %d, want the free id %d again", again.ID, in.ID)
	}
	if _, ret := e.GPUInstance(gi); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("the old handle names the new instance: %d", ret)
	}
	c2, _ := e.CreateComputeInstance(Handle{Serial: again.Serial}, 2, nil)
	if c2.UUID == c.UUID {
		t.Error("the MIG device has the UUID of the one before")
	}
}

// The MIG User Guide's example: the same instances fit when the largest is first.
func TestDriversChoiceOfPlacement(t *testing.T) {
	tests := map[string]struct {
		profiles   []int
		wantStarts []int
		wantLast   nvml.Return
	}{
		"small first": {[]int{id1g, id1g, id2g, id3g}, []int{6, 5, 2}, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"large first": {[]int{id3g, id1g, id2g, id1g}, []int{4, 3, 0, 2}, nvml.SUCCESS},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := withMIG(t)
			var starts []int
			var last nvml.Return
			for _, profile := range tc.profiles {
				in, ret := e.CreateGPUInstance(0, profile, nil)
				if last = ret; ret == nvml.SUCCESS {
					starts = append(starts, in.Placement.Start)
				}
			}
			if diff := cmp.Diff(tc.wantStarts, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if last != tc.wantLast {
				t.Errorf("last create: %d, want %d", last, tc.wantLast)
			}
		})
	}
}

func TestRemainingCapacity(t *testing.T) {
	e := withMIG(t)
	want := func(step string, counts map[int]int) {
		t.Helper()
		got := map[int]int{}
		for id := range counts {
			n, ret := e.RemainingCapacity(0, id)
			if ret != nvml.SUCCESS {
				t.Fatalf("%s: profile %d: %d", step, id, ret)
			}
			got[id] = n
		}
		if diff := cmp.Diff(counts, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	want("empty", map[int]int{id1g: 7, id1gMedia: 1, id1gDouble: 4, id2g: 3, id3g: 2, id4g: 1, id7g: 1})
	create(t, e, id1g, 6, 1)
	want("1g at 6", map[int]int{id1g: 6, id1gMedia: 1, id1gDouble: 3, id2g: 3, id3g: 1, id4g: 1, id7g: 0})
	create(t, e, id1gMedia, 0, 1)
	want("1g with media at 0", map[int]int{id1g: 5, id1gMedia: 0, id1gDouble: 2, id2g: 2, id3g: 0, id4g: 0, id7g: 0})
}

func TestComputeInstances(t *testing.T) {
	e := withMIG(t)
	in := create(t, e, id3g, 0, 4)
	gi := Handle{Serial: in.Serial}
	if n, ret := e.RemainingCompute(gi, 0); n != 3 || ret != nvml.SUCCESS {
		t.Errorf("1c in 3g: %d, %d", n, ret)
	}
	if _, ret := e.CreateComputeInstance(gi, 0, &mig.Placement{Start: 1, Size: 1}); ret != nvml.SUCCESS {
		t.Errorf("1c at 1: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(gi, 2, nil); ret != nvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("3c beside 1c: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(gi, 0, &mig.Placement{Start: 1, Size: 1}); ret != nvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("1c at the same place: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(gi, 0, &mig.Placement{Start: 3, Size: 1}); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("1c outside: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(gi, 4, nil); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("7c in 3g: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(Handle{Serial: 99}, 0, nil); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("in an instance that is not there: %d", ret)
	}
}

func TestComputeMode(t *testing.T) {
	e := newEngine(t, "mixed", Options{})
	if ret := e.SetComputeMode(0, nvml.COMPUTEMODE_EXCLUSIVE_PROCESS); ret != nvml.SUCCESS {
		t.Errorf("set: %d", ret)
	}
	if m, ret := e.ComputeMode(0); m != nvml.COMPUTEMODE_EXCLUSIVE_PROCESS || ret != nvml.SUCCESS {
		t.Errorf("get: %d, %d", m, ret)
	}
	if ret := e.SetComputeMode(0, 9); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("unknown mode: %d", ret)
	}
	enable(t, e, 0)
	if ret := e.SetComputeMode(0, nvml.COMPUTEMODE_PROHIBITED); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("set with MIG on: %d", ret)
	}
}

func TestStateOutlivesTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	e := newEngine(t, "mixed", Options{StateFile: file})
	enable(t, e, 0)
	in := create(t, e, id2g, 2, 2)
	if _, ret := e.CreateComputeInstance(Handle{Serial: in.Serial}, 1, nil); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	before := e.Snapshot()
	if diff := cmp.Diff(before, newEngine(t, "mixed", Options{StateFile: file}).Snapshot()); diff != "" {
		t.Errorf("state after a restart (-want +got):\n%s", diff)
	}
	again := newEngine(t, "mixed", Options{StateFile: file})
	if err := again.Reboot(); err != nil {
		t.Fatal(err)
	}
	after := again.Snapshot()
	if after.Boot != 2 || after.GPUs[0].MIGEnabled || len(after.GPUs[0].Instances) != 0 {
		t.Errorf("after a reboot: %+v", after)
	}
	if after.NextSerial != before.NextSerial {
		t.Errorf("serials start again after a reboot: %d, were at %d", after.NextSerial, before.NextSerial)
	}
	server, _, err := catalog.LoadServer("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEngine(server, Options{StateFile: file}); err == nil {
		t.Error("the state of another server was taken up")
	}
}

func TestObserverAndLatency(t *testing.T) {
	var seen []Snapshot
	var slept []time.Duration
	e := newEngine(t, "mixed", Options{
		Latency: DefaultLatency().Scale(2),
		Observe: func(s Snapshot) { seen = append(seen, s) },
		Sleep:   func(d time.Duration) { slept = append(slept, d) },
	})
	enable(t, e, 0)
	create(t, e, id1g, 0, 1)
	if _, ret := e.CreateGPUInstance(0, id1g, &mig.Placement{Start: 0, Size: 1}); ret == nvml.SUCCESS {
		t.Error("made twice")
	}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 240 * time.Millisecond}, slept); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	if len(seen) != 3 || len(seen[2].GPUs[0].Instances) != 1 || len(seen[1].GPUs[0].Instances) != 0 {
		t.Errorf("observed %+v", seen)
	}
}

func TestConcurrentClients(t *testing.T) {
	e := newEngine(t, "dgx-h100", Options{})
	for gpu := range 2 {
		enable(t, e, gpu)
	}
	var wg sync.WaitGroup
	made := make(chan InstanceState, 64)
	for client := range 16 {
		wg.Go(func() {
			for range 4 {
				if in, ret := e.CreateGPUInstance(client%2, id1g, nil); ret == nvml.SUCCESS {
					made <- in
				}
				e.Snapshot()
			}
		})
	}
	wg.Wait()
	close(made)
	serials := map[uint64]bool{}
	for in := range made {
		serials[in.Serial] = true
	}
	if len(serials) != 14 {
		t.Errorf("%d instances on two GPUs, want 14", len(serials))
	}
}

func TestCapabilityMinors(t *testing.T) {
	// Listed in /proc/driver/nvidia-caps/mig-minors of real nodes.
	if got := GPUInstanceMinor(0, 0); got != 3 {
		t.Errorf("gpu0/gi0: %d", got)
	}
	if got := ComputeInstanceMinor(0, 1, 0); got != 13 {
		t.Errorf("gpu0/gi1/ci0: %d", got)
	}
	if got := GPUInstanceMinor(1, 2); got != 156 {
		t.Errorf("gpu1/gi2: %d", got)
	}
}
