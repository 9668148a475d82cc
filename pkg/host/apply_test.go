package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/plan"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// faulty is the simulated driver with failures on demand: fail has the error that
// a call gives, by the call's name, and times how often (for ever if missing).
type faulty struct {
	host.Driver
	fail  map[string]error
	times map[string]int
	// noEffect makes SetMIGMode succeed without doing anything.
	noEffect bool
}

func (f *faulty) check(call string) error {
	err, ok := f.fail[call]
	if !ok {
		return nil
	}
	if n, limited := f.times[call]; limited {
		if n == 0 {
			return nil
		}
		f.times[call]--
	}
	return fmt.Errorf("%s: %w", call, err)
}

func (f *faulty) SetMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error {
	if err := f.check("SetMIGMode"); err != nil || f.noEffect {
		return err
	}
	return f.Driver.SetMIGMode(ctx, gpu, enabled)
}

func (f *faulty) CreateComputeInstance(ctx context.Context, gpu hardware.GPUID, gi, slices int) (hardware.ComputeInstance, error) {
	if err := f.check("CreateComputeInstance"); err != nil {
		return hardware.ComputeInstance{}, err
	}
	return f.Driver.CreateComputeInstance(ctx, gpu, gi, slices)
}

func (f *faulty) DestroyGPUInstance(ctx context.Context, gpu hardware.GPUID, gi int) error {
	if err := f.check("DestroyGPUInstance"); err != nil {
		return err
	}
	return f.Driver.DestroyGPUInstance(ctx, gpu, gi)
}

// fixture is one simulated GPU that can do MIG.
type fixture struct {
	*host.Host
	driver *faulty
	gpu    hardware.GPU
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := simhw.NewEngine(server, simhw.Options{Seed: "mixed"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{driver: &faulty{Driver: simhw.NewDriver(engine), fail: map[string]error{}, times: map[string]int{}}, gpu: server.Node().GPUs[0]}
	f.Host = host.New(f.driver, &kernel{}, t.TempDir())
	return f
}

// slice plans a 1g slice at a start, with MIG mode switched on first.
func (f *fixture) slice(start int) plan.Plan {
	p := f.gpu.MIG.Profiles[0]
	return plan.Plan{
		Devices: []plan.Device{{Name: fmt.Sprintf("slice-%d", start), GPU: f.gpu.ID(), MIG: &plan.Slice{
			Profile: p.Enum, ProfileID: p.ID, Name: p.Name, Placement: mig.Placement{Start: start, Size: 1},
		}}},
		Steps: []plan.Step{{Kind: plan.EnableMIG}, {Kind: plan.CreateGPUInstance}, {Kind: plan.CreateComputeInstance}},
	}
}

func ignore(int, plan.Result) error { return nil }

func (f *fixture) mustApply(t *testing.T, p plan.Plan) []plan.Result {
	t.Helper()
	results, err := f.Apply(t.Context(), p, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// starts are the first slots of the instances that exist.
func (f *fixture) starts(t *testing.T) []int {
	t.Helper()
	live, err := f.driver.Instances(t.Context(), f.gpu.ID())
	if err != nil {
		t.Fatal(err)
	}
	out := []int{}
	for _, i := range live {
		out = append(out, i.Placement.Start)
	}
	return out
}

func (f *fixture) expectStarts(t *testing.T, want ...int) {
	t.Helper()
	if diff := cmp.Diff(append([]int{}, want...), f.starts(t)); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

func TestApplyRecordsEachStepBeforeTheNext(t *testing.T) {
	f := newFixture(t)
	var recorded []int
	results, err := f.Apply(t.Context(), f.slice(6), func(step int, r plan.Result) error {
		recorded = append(recorded, step)
		if step == 1 {
			f.expectStarts(t, 6)
			if live, _ := f.driver.Instances(t.Context(), f.gpu.ID()); len(live[0].Compute) > 0 {
				t.Error("the compute instance was made before its GPU instance was recorded")
			}
			return errors.New("disk full")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "slice-6") {
		t.Errorf("got %v, want an error that names the cause and the device", err)
	}
	if diff := cmp.Diff([]int{0, 1}, recorded); diff != "" || len(results) != 2 {
		t.Errorf("recorded steps (-want +got):\n%s, %d results", diff, len(results))
	}
	if err := f.Undo(t.Context(), f.slice(6), results); err != nil {
		t.Fatal(err)
	}
	f.expectStarts(t)
}

// TestUndoWithoutComputeInstance has case MIGC-01: a GPU instance without a
// compute instance has no MIG device, and is found and destroyed all the same.
func TestUndoWithoutComputeInstance(t *testing.T) {
	f := newFixture(t)
	f.driver.fail["CreateComputeInstance"] = hardware.ErrInsufficientResources
	results, err := f.Apply(t.Context(), f.slice(6), ignore)
	if !errors.Is(err, hardware.ErrInsufficientResources) {
		t.Fatalf("got %v", err)
	}
	f.expectStarts(t, 6)
	if err := f.Undo(t.Context(), f.slice(6), results); err != nil {
		t.Fatal(err)
	}
	f.expectStarts(t)
	delete(f.driver.fail, "CreateComputeInstance")
	f.mustApply(t, f.slice(6))
}

// TestUndoInUse has cases MIGD-01 and MIGD-08: what is in use is reported and kept
// for another attempt, and a neighbour is left alone.
func TestUndoInUse(t *testing.T) {
	f := newFixture(t)
	neighbour, mine := f.slice(0), f.slice(6)
	f.mustApply(t, neighbour)
	results := f.mustApply(t, mine)
	f.driver.fail["DestroyGPUInstance"] = hardware.ErrInUse
	if err := f.Undo(t.Context(), mine, results); !errors.Is(err, hardware.ErrInUse) || !strings.Contains(err.Error(), "slice-6") {
		t.Fatalf("got %v, want in use and the device's name", err)
	}
	f.driver.times["DestroyGPUInstance"] = 5 // what passes soon is waited for
	if err := f.Undo(t.Context(), mine, results); err != nil {
		t.Fatal(err)
	}
	f.expectStarts(t, 0)
	if err := f.Undo(t.Context(), mine, results); err != nil {
		t.Errorf("undo again: %v", err)
	}
}

// TestUndoLeavesWhatIsNotOurs: ours is gone, and somebody has made another
// instance in its place.
func TestUndoLeavesWhatIsNotOurs(t *testing.T) {
	f := newFixture(t)
	p := f.slice(6)
	old := f.mustApply(t, p)
	if err := f.Undo(t.Context(), p, old); err != nil {
		t.Fatal(err)
	}
	f.mustApply(t, p)
	if err := f.Undo(t.Context(), p, old); err != nil {
		t.Fatal(err)
	}
	f.expectStarts(t, 6)
	if err := f.Confirm(t.Context(), p, old); !errors.Is(err, hardware.ErrNotFound) {
		t.Errorf("confirm what is gone: got %v, want not found", err)
	}
}

// TestApplyPendingMode has case MIGC-04: a success that changes nothing.
func TestApplyPendingMode(t *testing.T) {
	f := newFixture(t)
	f.driver.noEffect = true
	_, err := f.Apply(t.Context(), f.slice(6), ignore)
	if !errors.Is(err, hardware.ErrResetRequired) || !strings.Contains(err.Error(), string(f.gpu.PCI)) {
		t.Errorf("got %v, want a pending change that names the GPU", err)
	}
}

func TestComputeMode(t *testing.T) {
	set := func(f *fixture) plan.Plan {
		return plan.Plan{
			Devices: []plan.Device{{Name: "whole", GPU: f.gpu.ID()}},
			Steps: []plan.Step{{
				Kind: plan.SetComputeMode, ComputeMode: hardware.ComputeModeExclusiveProcess, Prior: hardware.ComputeModeDefault,
			}},
		}
	}
	tests := map[string]struct {
		meanwhile hardware.ComputeMode // what somebody else sets
		want      hardware.ComputeMode
	}{
		"the prior mode comes back":          {want: hardware.ComputeModeDefault},
		"what somebody has set since, stays": {meanwhile: hardware.ComputeModeProhibited, want: hardware.ComputeModeProhibited},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			results := f.mustApply(t, set(f))
			if tc.meanwhile != "" {
				if err := f.driver.SetComputeMode(t.Context(), f.gpu.ID(), tc.meanwhile); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Undo(t.Context(), set(f), results); err != nil {
				t.Fatal(err)
			}
			got, err := f.driver.ComputeMode(t.Context(), f.gpu.ID())
			if err != nil || got != tc.want {
				t.Errorf("mode %s (%v), want %s", got, err, tc.want)
			}
		})
	}
}

// TestReplacedGPU: other silicon at the address is never touched, and what was on
// the old one counts as gone.
func TestReplacedGPU(t *testing.T) {
	f := newFixture(t)
	p := f.slice(6)
	results := f.mustApply(t, p)
	p.Devices[0].GPU.UUID = "GPU-of-before"
	if err := f.Undo(t.Context(), p, results); err != nil {
		t.Errorf("undo on a replaced GPU: %v", err)
	}
	f.expectStarts(t, 6)
	if err := f.Confirm(t.Context(), p, results); !errors.Is(err, hardware.ErrReplaced) {
		t.Errorf("confirm on a replaced GPU: got %v", err)
	}
	if _, err := f.Apply(t.Context(), p, ignore); !errors.Is(err, hardware.ErrReplaced) {
		t.Errorf("apply on a replaced GPU: got %v", err)
	}
}

func TestApplyStopsBetweenSteps(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	results, err := f.Apply(ctx, f.slice(6), func(int, plan.Result) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || len(results) != 1 {
		t.Errorf("got %v after %d steps, want canceled after one", err, len(results))
	}
}
