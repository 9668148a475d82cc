package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/nvml"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// nvmlDriver is somebody else's client of the same hardware.
func nvmlDriver(f *fixture) *nvml.Driver {
	return nvml.New(nvml.Config{LibraryPath: f.hw.Library, DriverRoot: f.hw.Root, DevRoot: f.hw.DevRoot, ProcRoot: f.hw.ProcRoot})
}

func placementAt(start int) mig.Placement { return mig.Placement{Start: start, Size: 1} }

func TestRestartAnswersFromTheJournal(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	first := f.mustPrepare(c)
	before := f.hw.State()
	f.stop()
	f.start()
	if diff := cmp.Diff(first, f.mustPrepare(c), protocmp.Transform()); diff != "" {
		t.Errorf("answer after a restart (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, f.hw.State()); diff != "" {
		t.Errorf("the restart changed the hardware:\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestRestartUndoesWhatWasBegun stops at every point at which a crash can hit
// between the journal and the hardware, and starts a new plugin there (CHKP-01).
func TestRestartUndoesWhatWasBegun(t *testing.T) {
	f := newFixture(t, "mixed")
	model := f.hw.Server.Node()
	g := model.GPUs[0]
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	pl, err := plan.New(plan.Input{Claim: c, DriverName: driverName, Node: model})
	if err != nil {
		t.Fatal(err)
	}
	// done is how many steps the hardware saw, recorded how many the journal did.
	for done := range len(pl.Steps) + 1 {
		for _, recorded := range []int{done, done - 1} {
			if recorded < 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d of %d steps done, %d recorded", done, len(pl.Steps), recorded), func(t *testing.T) {
				f.stop()
				crash(t, f, pl, done, recorded)
				f.start()
				f.await("the unfinished claim is undone", func(context.Context) error {
					if left := f.left(); len(left) > 0 {
						return fmt.Errorf("left behind: %v", left)
					}
					return nil
				})
				f.mustPrepare(c) // and the device can be had again
				f.mustUnprepare(c)
				f.mustBeClean()
				other := nvmlDriver(f)
				defer other.Close()
				if err := other.SetMIGMode(t.Context(), g.ID(), false); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

var errCrash = errors.New("crash")

// crash carries out a plan as the plugin does, up to a point.
func crash(t *testing.T, f *fixture, pl plan.Plan, done, recorded int) {
	t.Helper()
	deps, closeDriver := f.deps()
	defer closeDriver()
	if err := deps.Journal.Begin(pl); err != nil {
		t.Fatal(err)
	}
	if done == 0 {
		return
	}
	_, err := deps.Host.Apply(t.Context(), pl, func(step int, r plan.Result) error {
		if step < recorded {
			if err := deps.Journal.RecordResult(pl.Claim.UID, step, r); err != nil {
				return err
			}
		}
		if step+1 == done {
			return errCrash
		}
		return nil
	})
	if !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
}

// TestPrepareUndoesAnUnfinishedAttempt does the same without a restart: the
// kubelet asks again.
func TestPrepareUndoesAnUnfinishedAttempt(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	pl, err := plan.New(plan.Input{Claim: c, DriverName: driverName, Node: f.hw.Server.Node()})
	if err != nil {
		t.Fatal(err)
	}
	crash(t, f, pl, 2, 1)
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
}

func TestConfirmRefusesWhatIsGone(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	g := f.hw.Server.Node().GPUs[0]
	other := nvmlDriver(f)
	defer other.Close()
	for _, inst := range live(t, other, g) {
		for _, ci := range inst.Compute {
			if err := other.DestroyComputeInstance(t.Context(), g.ID(), inst.ID, ci.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.DestroyGPUInstance(t.Context(), g.ID(), inst.ID); err != nil {
			t.Fatal(err)
		}
	}
	f.mustRefuse(c, "gone", "delete the pod")
	f.mustUnprepare(c)
	f.mustBeClean()
}

func live(t *testing.T, d *nvml.Driver, g hardware.GPU) []hardware.Instance {
	t.Helper()
	out, err := d.Instances(t.Context(), g.ID())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// published lists this node's slices.
func (f *fixture) published() []resourceapi.ResourceSlice {
	f.t.Helper()
	list, err := f.kube.ResourceV1().ResourceSlices().List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// TestPublish: the pool is complete, and a slice that somebody deletes is written
// again at once (SLICE-03).
func TestPublish(t *testing.T) {
	f := newFixture(t, "dgx-h100")
	before := f.published()
	devices := 0
	for _, s := range before {
		devices += len(s.Spec.Devices)
	}
	if devices != 208 {
		t.Errorf("published %d devices, want 8 GPUs with 25 placements each", devices)
	}
	if err := f.kube.ResourceV1().ResourceSlices().Delete(t.Context(), before[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await("the deleted slice is back", func(context.Context) error {
		if n := len(f.published()); n != len(before) {
			return fmt.Errorf("%d of %d slices", n, len(before))
		}
		return nil
	})
	if !slices.ContainsFunc(f.published(), func(s resourceapi.ResourceSlice) bool {
		return cmp.Equal(before[0].Spec.Devices, s.Spec.Devices) && cmp.Equal(before[0].Spec.SharedCounters, s.Spec.SharedCounters)
	}) {
		t.Error("the new slice differs from the deleted one")
	}
}
