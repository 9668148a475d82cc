package simhw

import (
	"context"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

func TestConflictingProfiles(t *testing.T) {
	s, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s.GPUs[0].Model.MIG.Conflicts = map[int][]int{mig.Profile1SliceRev1: {mig.Profile2Slice}, mig.Profile2Slice: {mig.Profile1SliceRev1}}
	e, err := NewEngine(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	enable(t, e, 0)
	in := create(t, e, id2g, 0, 2)
	if _, ret := e.CreateGPUInstance(0, id1gMedia, &mig.Placement{Start: 5, Size: 1}); ret != nvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("beside one that excludes it: %s", CodeName(ret))
	}
	if n, ret := e.RemainingCapacity(0, id1gMedia); n != 0 || ret != nvml.SUCCESS {
		t.Errorf("remaining capacity %d, %s", n, CodeName(ret))
	}
	create(t, e, id1g, 4, 1)
	if ret := e.DestroyGPUInstance(Handle{Serial: in.Serial}); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	create(t, e, id1gMedia, 5, 1)
}

// Right after its compute instance a GPU instance may still be in use.
func TestReleaseTakesTimeMIGD01(t *testing.T) {
	destroy := func(release time.Duration) func() nvml.Return {
		e := newEngine(t, "mixed", Options{Latency: Latency{Release: release}})
		enable(t, e, 0)
		in := create(t, e, id1g, 0, 1)
		c, _ := e.CreateComputeInstance(Handle{Serial: in.Serial}, 0, nil)
		if ret := e.DestroyComputeInstance(Handle{Serial: c.Serial}); ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		return func() nvml.Return { return e.DestroyGPUInstance(Handle{Serial: in.Serial}) }
	}
	if ret := destroy(time.Hour)(); ret != nvml.ERROR_IN_USE {
		t.Errorf("within the time: %s", CodeName(ret))
	}
	begin, again := time.Now(), destroy(time.Millisecond)
	for again() == nvml.ERROR_IN_USE {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("still in use")
		}
	}
}

func TestProfileOverrideMIGC09(t *testing.T) {
	e := newEngine(t, "mixed", Options{})
	do(t, e.OverrideProfile(0, "1g.10gb", ProfileOverride{MemoryMiB: 11264, InstanceCount: 5}))
	p, _ := e.Profile(0, mig.Profile1Slice)
	if p.MemoryMiB != 11264 || p.MaxInstances != 7 || e.ReportedCount(0, p) != 5 {
		t.Errorf("profile %+v, reported %d times", p, e.ReportedCount(0, p))
	}
	n, _ := read(t, e)
	if got := n.GPUs[0].MIG.Profiles[0]; got.MemoryMiB != 11264 || got.Name != mig.Name(p.Enum, 1, 11264, n.GPUs[0].MemoryMiB) {
		t.Errorf("discovery finds %+v", got)
	}
	do(t, e.OverrideProfile(0, "1g.10gb", ProfileOverride{}))
	if p, _ := e.Profile(0, mig.Profile1Slice); p.MemoryMiB != 9984 || e.ReportedCount(0, p) != 7 {
		t.Errorf("back again: %+v", p)
	}
	if e.OverrideProfile(0, "9g.99gb", ProfileOverride{}) == nil || e.OverrideProfile(1, "1g.10gb", ProfileOverride{}) == nil {
		t.Error("an override of nothing was taken")
	}
}

func TestReportedCountOfAnA30(t *testing.T) {
	s, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s.GPUs[0].Model.PCI.Device = a30
	e, err := NewEngine(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := mig.Profile{Enum: mig.Profile1Slice, MaxInstances: 4}
	if n := e.ReportedCount(0, p); n <= p.MaxInstances {
		t.Errorf("an A30's wrong count is %d; clients that make room for as many must be able to take all %d", n, p.MaxInstances)
	}
	if n := e.ReportedCount(1, p); n != 4 {
		t.Errorf("another GPU's count is %d", n)
	}
}

func TestStaleDevicesMIGD05(t *testing.T) {
	e := withMIG(t)
	in := create(t, e, id1g, 0, 1)
	c, _ := e.CreateComputeInstance(Handle{Serial: in.Serial}, 0, nil)
	f := fault(t, e, Fault{Call: callMIGByIndex, Stale: true})
	early := e.Sequence()
	if ret := e.DestroyComputeInstance(Handle{Serial: c.Serial}); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	late := e.Sequence()
	if d := e.StaleMIGDevices(0, early); len(d) != 1 || d[0].Compute.UUID != c.UUID {
		t.Errorf("a client from before finds %+v", d)
	}
	if d, ret := e.StaleMIGDevice(Handle{Serial: c.Serial}, early); ret != nvml.SUCCESS || d.Instance.ID != in.ID {
		t.Errorf("its handle: %+v, %s", d, CodeName(ret))
	}
	if d := e.StaleMIGDevices(0, late); len(d) != 0 {
		t.Errorf("a client from after finds %+v", d)
	}
	do(t, e.ClearFault(f.ID))
	if d := e.StaleMIGDevices(0, early); len(d) != 0 {
		t.Errorf("without the fault: %+v", d)
	}
}

// A slow watcher sees every state, in order.
func TestWatch(t *testing.T) {
	e := newEngine(t, "mixed", Options{})
	ctx, stop := context.WithCancel(t.Context())
	first, goOn := make(chan bool), make(chan bool)
	var modes []bool
	done := make(chan error)
	go func() {
		done <- e.Watch(ctx, func(s Snapshot) error {
			modes = append(modes, s.GPUs[0].MIGEnabled)
			switch len(modes) {
			case 1:
				close(first)
				<-goOn
			case 5:
				stop()
			}
			return nil
		})
	}()
	<-first
	for _, on := range []bool{true, false, true, false} {
		if _, ret := e.SetMIGMode(0, on); ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
	}
	close(goOn)
	do(t, <-done)
	if diff := cmp.Diff([]bool{false, true, false, true, false}, modes); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}
