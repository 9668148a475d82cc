package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/node"
)

// TestLostGPUDISC08: a GPU that falls off the bus takes no other with it. What was
// prepared on it can be let go.
func TestLostGPUDISC08(t *testing.T) {
	f := newFixture(t, "dgx-h100")
	lost, other := f.claim("a", f.slice(2, "1g.10gb", 6)), f.claim("b", f.slice(3, "1g.10gb", 6))
	f.mustPrepare(lost)
	f.hw.Do("lose", "--gpu=2")
	f.mustPrepare(other)
	f.awaitTaint(f.whole(2), node.TaintGPUMissing)
	f.awaitTaint(f.slice(2, "1g.10gb", 5), node.TaintGPUMissing)
	f.awaitTaint(f.whole(3), "")
	f.mustRefuse(f.claim("c", f.slice(2, "1g.10gb", 5)), "GPU is lost")
	f.mustUnprepare(lost)
	f.mustUnprepare(other)
}

// TestHotPlugDISC12: GPUs come and go while the plugin runs, and claims on others do
// not notice.
func TestHotPlugDISC12(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	f.hw.Do("unplug", "--gpu=1")
	f.awaitTaint(f.whole(1), node.TaintGPUMissing)
	f.mustRefuse(f.claim("b", f.whole(1)), "not found")
	f.hw.Do("plug", "--gpu=1")
	f.awaitTaint(f.whole(1), "")
	d := f.claim("b", f.whole(1))
	f.mustPrepare(d)
	f.mustPrepare(c) // it still answers
	f.mustUnprepare(c)
	f.mustUnprepare(d)
	f.mustBeClean()
}

// TestReplacedGPU: other silicon in the place of a GPU that a claim holds is not taken
// for it; once the claim lets go it is offered as itself.
func TestReplacedGPU(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	f.hw.Do("replace", "--gpu=0")
	f.awaitTaint(f.whole(0), node.TaintGPUMissing)
	f.mustRefuse(f.claim("b", f.slice(0, "1g.10gb", 5)), "another GPU is at this address")
	f.mustUnprepare(c)
	f.awaitTaint(f.whole(0), "")
	d := f.claim("b", f.slice(0, "1g.10gb", 5))
	f.mustPrepare(d)
	f.mustUnprepare(d)
	f.mustBeClean()
}

// TestLateNodeDISC05: a GPU whose device node is not there cannot be had, and can be
// had once it is there. (NVML needs the node too, so the GPU is gone until then.)
func TestLateNodeDISC05(t *testing.T) {
	f := newFixture(t, "mixed")
	f.hw.Do("files", "spoil", "--path=dev/nvidia1", "--missing")
	c := f.claim("a", f.whole(1))
	f.mustRefuse(c, "0000:86:00.0", "not found")
	f.mustBeClean()
	f.awaitTaint(f.whole(1), node.TaintGPUMissing)
	f.hw.Do("files", "clear")
	f.awaitTaint(f.whole(1), "")
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestDriverComesAndGoes: without the driver nothing can be prepared, and all of it
// works again when the driver is back, without a restart.
func TestDriverComesAndGoes(t *testing.T) {
	f := newFixture(t, "mixed")
	f.hw.Do("driver", "unload")
	f.mustRefuse(f.claim("a", f.whole(1)), "NVIDIA driver unavailable")
	f.await("readiness says why", func(ctx context.Context) error {
		if err := f.plugin.Ready(ctx); err == nil || !strings.Contains(err.Error(), "driver unavailable") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	f.holdsFor(f.whole(1), "", time.Second) // what was published stays
	f.hw.Do("driver", "load")
	f.await("the plugin is ready again", f.plugin.Ready)
	c := f.claim("a", f.whole(1))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestBusySliceMIGD01: a slice that cannot be removed stays on record, and its place is
// given to nobody; the kubelet's next try removes it.
func TestBusySliceMIGD01(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	f.hw.Fault("--call=nvmlComputeInstanceDestroy", "--return=IN_USE", "--times=2")
	if err := f.unprepare(c); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("unprepare: %v, want an error", err)
	}
	f.mustRefuse(f.claim("b", f.slice(0, "3g.40gb", 4)), "ns/a")
	for f.unprepare(c) != nil {
		if t.Context().Err() != nil {
			t.Fatal("it never ends")
		}
	}
	f.mustBeClean()
}

// TestSlowCreatePREP06: a slice that takes longer than the kubelet waits is made once.
func TestSlowCreatePREP06(t *testing.T) {
	f := newFixture(t, "mixed")
	held := f.hw.Fault("--call=nvmlDeviceCreateGpuInstanceWithPlacement", "--block")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := f.prepareWith(ctx, c); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "DeadlineExceeded") {
		t.Errorf("prepare: %v, want the deadline", err)
	}
	f.hw.AwaitHeld(held)
	f.hw.Do("fault", "release", fmt.Sprintf("--id=%d", held.ID))
	f.mustPrepare(c)
	if diff := cmp.Diff([]string{"0:1g.10gb@6"}, f.instances()); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestAmpereMIGC03: on Ampere the mode is never touched. What is published follows it
// once somebody has changed it and reset the GPU.
func TestAmpereMIGC03(t *testing.T) {
	f := newFixture(t, "a30x4")
	f.awaitTaint(f.whole(0), "")
	f.awaitTaint(f.slice(0, "1g.6gb", 3), "-")
	f.mustRefuse(f.claim("a", f.slice(0, "1g.6gb", 3)), "MIG mode of GPU")
	f.hw.Do("mig", "--gpu=0", "--enabled=true")
	f.holdsFor(f.whole(0), "", 2*time.Second) // it only pends
	f.hw.Do("reset", "--gpu=0")
	f.awaitTaint(f.whole(0), "-")
	f.awaitTaint(f.slice(0, "1g.6gb", 3), "")
	c := f.claim("b", f.slice(0, "1g.6gb", 3), f.slice(0, "2g.12gb+me", 0))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	if g := f.hw.State().GPUs[0]; !g.MIGEnabled || len(g.Instances) > 0 {
		t.Errorf("GPU: %+v, want MIG mode on and no instance", g)
	}
}

// TestStaleHandleMIGD05: a MIG device that NVML goes on listing after it is gone is
// taken for neither live nor foreign.
func TestStaleHandleMIGD05(t *testing.T) {
	f := newFixture(t, "mixed")
	f.hw.Fault("--call=nvmlDeviceGetMigDeviceHandleByIndex", "--stale")
	c := f.claim("a", f.slice(0, "1g.10gb", 6), f.slice(0, "1g.10gb", 5))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
	f.holdsFor(f.slice(0, "3g.40gb", 4), "", 2*time.Second)
	d := f.claim("b", f.slice(0, "3g.40gb", 4))
	f.mustPrepare(d)
	f.mustUnprepare(d)
	f.mustBeClean()
}

// TestSixteenGPUs: more GPUs than one slice has counter sets.
func TestSixteenGPUs(t *testing.T) {
	f := newFixture(t, "16-gpu")
	c := f.claim("a", f.whole(15), f.whole(0))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestBusyAfterDestroy: right after its compute instance is gone a GPU instance is in
// use for some tenths of a second yet, which no claim notices.
func TestBusyAfterDestroy(t *testing.T) {
	f := newFixture(t, "mixed", func(f *fixture) { f.flags = []string{"--in-use-after-destroy=300ms"} })
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	f.mustBeClean()
}
