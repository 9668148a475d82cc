package simhw

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

func fault(t *testing.T, e *Engine, f Fault) Fault {
	t.Helper()
	f, err := e.AddFault(f)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// slice is an engine with one MIG device, and the driver in front of it.
func slice(t *testing.T) (*Engine, *Driver, hardware.GPUID, hardware.Instance) {
	t.Helper()
	e := withMIG(t)
	d := NewDriver(e)
	n, _ := read(t, e)
	gpu := n.GPUs[0].ID()
	in, err := d.CreateGPUInstance(t.Context(), gpu, mig.Profile1Slice, mig.Placement{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	ci, err := d.CreateComputeInstance(t.Context(), gpu, in.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	in.Compute = []hardware.ComputeInstance{ci}
	return e, d, gpu, in
}

// How often a fault strikes, as codes of one call after the other.
func TestFaultStrikes(t *testing.T) {
	const call = "nvmlDeviceGetUUID"
	inUse, lost, ok := nvml.ERROR_IN_USE, nvml.ERROR_GPU_IS_LOST, nvml.SUCCESS
	tests := map[string]struct {
		faults []Fault
		call   Call
		want   []nvml.Return
	}{
		"for ever":                   {[]Fault{{Call: call, Return: inUse}}, Call{Function: call}, []nvml.Return{inUse, inUse, inUse}},
		"the first two":              {[]Fault{{Call: call, Return: inUse, Times: 2}}, Call{Function: call}, []nvml.Return{inUse, inUse, ok}},
		"one after the other":        {[]Fault{{Call: call, Return: inUse, Times: 1}, {Call: call, Return: lost, Times: 1}}, Call{Function: call}, []nvml.Return{inUse, lost, ok}},
		"another call":               {[]Fault{{Call: "nvmlDeviceGetName", Return: inUse}}, Call{Function: call}, []nvml.Return{ok}},
		"every call":                 {[]Fault{{Call: CallAny, Return: inUse}}, Call{Function: call}, []nvml.Return{inUse}},
		"another version":            {[]Fault{{Call: "nvmlDeviceGetCount", Return: inUse}}, Call{Function: "nvmlDeviceGetCount_v2"}, []nvml.Return{inUse}},
		"either Init":                {[]Fault{{Call: CallInit, Return: inUse}}, Call{Function: "nvmlInitWithFlags"}, []nvml.Return{inUse}},
		"its GPU":                    {[]Fault{{Call: call, GPU: new(1), Return: inUse}}, Call{Function: call, GPU: 1}, []nvml.Return{inUse}},
		"another GPU":                {[]Fault{{Call: call, GPU: new(1), Return: inUse}}, Call{Function: call, GPU: 0}, []nvml.Return{ok}},
		"no GPU":                     {[]Fault{{Call: CallAny, GPU: new(1), Return: inUse}}, Call{Function: CallInit, GPU: -1}, []nvml.Return{ok}},
		"its instance":               {[]Fault{{Call: callDestroyGI, Instance: new(7), Return: inUse}}, Call{Function: callDestroyGI, Instance: 7}, []nvml.Return{inUse}},
		"another instance (MIGD-08)": {[]Fault{{Call: callDestroyGI, Instance: new(7), Return: inUse}}, Call{Function: callDestroyGI, Instance: 8}, []nvml.Return{ok}},
		"after a while":              {[]Fault{{Call: call, Delay: time.Millisecond, Return: inUse}}, Call{Function: call}, []nvml.Return{inUse}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, "mixed", Options{})
			for _, f := range tc.faults {
				fault(t, e, f)
			}
			var got []nvml.Return
			for range tc.want {
				got = append(got, e.Enter(t.Context(), tc.call).Return)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			struck := 0
			for _, f := range e.Faults() {
				struck += f.Struck
			}
			if want := len(tc.want) - count(tc.want, ok); struck != want {
				t.Errorf("struck %d times, want %d", struck, want)
			}
			do(t, e.ClearFault(0))
			if v := e.Enter(t.Context(), tc.call); v.Return != ok || len(e.Faults()) > 0 {
				t.Errorf("after clearing: %s, %v", CodeName(v.Return), e.Faults())
			}
		})
	}
}

func count(all []nvml.Return, one nvml.Return) int {
	n := 0
	for _, r := range all {
		if r == one {
			n++
		}
	}
	return n
}

func TestCreateFailsMIGC01(t *testing.T) {
	e, d, gpu, _ := slice(t)
	fault(t, e, Fault{Call: callCreateCI, Return: nvml.ERROR_INSUFFICIENT_RESOURCES, Times: 1})
	in, err := d.CreateGPUInstance(t.Context(), gpu, mig.Profile1Slice, mig.Placement{Start: 1, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateComputeInstance(t.Context(), gpu, in.ID, 0); !errors.Is(err, hardware.ErrInsufficientResources) {
		t.Errorf("first: %v", err)
	}
	if _, err := d.CreateComputeInstance(t.Context(), gpu, in.ID, 0); err != nil {
		t.Errorf("second: %v", err)
	}
}

func TestDestroyMIGD01(t *testing.T) {
	e, d, gpu, in := slice(t)
	f := fault(t, e, Fault{Call: callDestroyCI, GPU: new(0), Instance: new(in.ID), Return: nvml.ERROR_IN_USE})
	for range 3 {
		if err := d.DestroyComputeInstance(t.Context(), gpu, in.ID, 0); !errors.Is(err, hardware.ErrInUse) {
			t.Errorf("in use: %v", err)
		}
	}
	do(t, e.ClearFault(f.ID))
	do(t, d.DestroyComputeInstance(t.Context(), gpu, in.ID, 0))
}

// Success without effect, for ever and for a while.
func TestDestroyMIGD02(t *testing.T) {
	e, d, gpu, in := slice(t)
	f := fault(t, e, Fault{Call: callDestroyCI, NoEffect: true})
	do(t, d.DestroyComputeInstance(t.Context(), gpu, in.ID, 0))
	if live, _ := d.Instances(t.Context(), gpu); len(live[0].Compute) != 1 {
		t.Errorf("it had an effect: %+v", live)
	}
	do(t, e.ClearFault(f.ID))
	fault(t, e, Fault{Call: callDestroyCI, NoEffect: true, Late: time.Millisecond, Times: 1})
	states := make(chan Snapshot, 16)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = e.Watch(ctx, func(s Snapshot) error { states <- s; return nil }) }()
	do(t, d.DestroyComputeInstance(t.Context(), gpu, in.ID, 0))
	for s := range states {
		if len(s.GPUs[0].Instances[0].Compute) == 0 {
			return
		}
	}
}

func TestModeFaultsMIGC04(t *testing.T) {
	e := newEngine(t, "mixed", Options{})
	d := NewDriver(e)
	n, _ := read(t, e)
	gpu := n.GPUs[0].ID()
	fault(t, e, Fault{Call: callSetMIGMode, Pends: true, Times: 1})
	if err := d.SetMIGMode(t.Context(), gpu, true); !errors.Is(err, hardware.ErrResetRequired) {
		t.Errorf("a mode that pends: %v", err)
	}
	wantMode(t, e, "pending", false, true)
	fault(t, e, Fault{Call: callSetMIGMode, NoEffect: true, Times: 1})
	do(t, d.SetMIGMode(t.Context(), gpu, false))
	wantMode(t, e, "no effect", false, true)
	if ret := e.Reset(0); ret != nvml.SUCCESS {
		t.Error(CodeName(ret))
	}
	wantMode(t, e, "reset", true, true)
}

func TestBlockedCallPREP06(t *testing.T) {
	for name, end := range map[string]func(*Engine, int) error{"released": (*Engine).ReleaseFault, "cleared": (*Engine).ClearFault} {
		t.Run(name, func(t *testing.T) {
			e, d, gpu, _ := slice(t)
			f := fault(t, e, Fault{Call: callCreateGI, Block: true})
			made := make(chan error)
			go func() {
				_, err := d.CreateGPUInstance(t.Context(), gpu, mig.Profile1Slice, mig.Placement{Start: 1, Size: 1})
				made <- err
			}()
			for e.Faults()[0].Waiting == 0 {
				select {
				case err := <-made:
					t.Fatalf("it was not held: %v", err)
				default:
					runtime.Gosched()
				}
			}
			if n := len(e.Snapshot().GPUs[0].Instances); n != 1 {
				t.Errorf("%d instances while the call is held", n)
			}
			do(t, end(e, f.ID))
			do(t, <-made)
			if _, err := d.CreateGPUInstance(t.Context(), gpu, mig.Profile1Slice, mig.Placement{Start: 2, Size: 1}); err != nil {
				t.Errorf("a later one: %v", err)
			}
		})
	}
	e := newEngine(t, "mixed", Options{})
	fault(t, e, Fault{Call: callMinor, Delay: time.Millisecond})
	if v := e.Enter(t.Context(), Call{Function: callMinor}); v.Return != nvml.SUCCESS {
		t.Errorf("a slow call: %s", CodeName(v.Return))
	}
	fault(t, e, Fault{Call: CallAny, Block: true})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if v := e.Enter(ctx, Call{Function: callUUID}); v.Return != nvml.ERROR_TIMEOUT {
		t.Errorf("at the end of the daemon: %s", CodeName(v.Return))
	}
}

func TestDriverState(t *testing.T) {
	e, d, gpu, in := slice(t)
	do(t, e.SetDriver(func(s *DriverState) { s.Unloaded = true }))
	if _, _, err := d.Node(t.Context()); !errors.Is(err, hardware.ErrDriverUnavailable) {
		t.Errorf("discovery without a driver: %v", err)
	}
	if err := d.DestroyGPUInstance(t.Context(), gpu, in.ID); !errors.Is(err, hardware.ErrDriverUnavailable) {
		t.Errorf("destroy without a driver: %v", err)
	}
	do(t, e.SetDriver(func(s *DriverState) { *s = DriverState{Mismatch: true, Version: "595.58.03"} }))
	if _, _, err := d.Node(t.Context()); !errors.Is(err, hardware.ErrDriverUnavailable) {
		t.Errorf("discovery with another library (UPGR-05): %v", err)
	}
	if _, err := d.Instances(t.Context(), gpu); err != nil {
		t.Errorf("a client that was there before: %v", err)
	}
	for _, version := range []string{"595.58.03", "", "580.x-dev", "6.19.14.31400000"} {
		do(t, e.SetDriver(func(s *DriverState) { *s = DriverState{Version: version} }))
		if n, _ := read(t, e); n.DriverVersion != version {
			t.Errorf("version %q (SLICE-02), want %q", n.DriverVersion, version)
		}
	}
	if err := e.SetDriver(func(s *DriverState) { s.BusIDs = "roman" }); err == nil {
		t.Error("an unknown form of bus ids was taken")
	}
}

func TestStats(t *testing.T) {
	e, d, gpu, in := slice(t)
	before := e.Stats()
	read(t, e)
	if _, err := d.Instances(t.Context(), gpu); err != nil {
		t.Fatal(err)
	}
	if got := e.Stats(); got.Changes != before.Changes || got.Calls[callListGI] != before.Calls[callListGI]+1 {
		t.Errorf("after reads %+v, before %+v", got, before)
	}
	do(t, d.DestroyComputeInstance(t.Context(), gpu, in.ID, 0))
	if got := e.Stats(); got.Changes != before.Changes+1 {
		t.Errorf("%d changes after one more, before %d", got.Changes, before.Changes)
	}
}

func TestFaultIsRefused(t *testing.T) {
	tests := map[string]struct {
		fault Fault
		want  string
	}{
		"no call":                  {Fault{Return: 1}, "name of a call"},
		"no effect at all":         {Fault{Call: callUUID}, "needs an effect"},
		"a result without effect":  {Fault{Call: callCreateGI, NoEffect: true}, "has a result"},
		"late without no effect":   {Fault{Call: callDestroyGI, Late: 1, Block: true}, "have it late"},
		"pending destroy":          {Fault{Call: callDestroyGI, Pends: true}, "can pend"},
		"stale name":               {Fault{Call: callUUID, Stale: true}, "can be stale"},
		"negative":                 {Fault{Call: callUUID, Return: 1, Times: -1}, "negative"},
		"a slot that is not there": {Fault{Call: callUUID, Return: 1, GPU: new(9)}, "GPU 9"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := newEngine(t, "mixed", Options{}).AddFault(tc.fault); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if err := newEngine(t, "mixed", Options{}).ClearFault(3); !errors.Is(err, errNoFault) {
		t.Errorf("clear a fault that is not there: %v", err)
	}
}

func TestFaultAsJSON(t *testing.T) {
	f := Fault{ID: 2, Call: callDestroyGI, GPU: new(0), Instance: new(3), Times: 5, Delay: 1500 * time.Millisecond,
		Return: nvml.ERROR_IN_USE, Late: time.Minute, Struck: 4, Waiting: 1}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":2,"call":"nvmlGpuInstanceDestroy","gpu":0,"instance":3,"times":5,"struck":4,"waiting":1,"return":"IN_USE","delay":"1.5s","late":"1m0s"}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var back Fault
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`{"return":"BROKEN"}`, `{"delay":"soon"}`, `{"times":"x"}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestCodes(t *testing.T) {
	for _, s := range []string{"IN_USE", "in_use", "ERROR_IN_USE", "NVML_ERROR_IN_USE", "19"} {
		if got, err := ParseCode(s); got != nvml.ERROR_IN_USE || err != nil {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	if CodeName(30) != "30" || CodeName(nvml.ERROR_LIB_RM_VERSION_MISMATCH) != "LIB_RM_VERSION_MISMATCH" {
		t.Error("names of codes are wrong")
	}
}
