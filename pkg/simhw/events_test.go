package simhw

import (
	"context"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

func testEngine(t *testing.T, server string) *Engine {
	t.Helper()
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func everything(Event) bool { return true }

// listening is a set that is registered for all of a GPU's events.
func listening(t *testing.T, e *Engine, gpu int) uint64 {
	t.Helper()
	set := e.CreateEventSet()
	if ret := e.RegisterEvents(set, gpu, SupportedEvents); ret != nvml.SUCCESS {
		t.Fatalf("register: %d", ret)
	}
	return set
}

// pending are the Xids that a set has ready.
func pending(t *testing.T, e *Engine, set uint64, visible func(Event) bool) []uint64 {
	t.Helper()
	var out []uint64
	for {
		ev, ret := e.WaitEvent(t.Context(), set, 0, visible)
		if ret == nvml.ERROR_TIMEOUT {
			return out
		}
		if ret != nvml.SUCCESS {
			t.Fatalf("wait: %d", ret)
		}
		if ev.Type == nvml.EventTypeXidCriticalError {
			out = append(out, ev.Data)
		}
	}
}

func inject(t *testing.T, e *Engine, gpu int, xid uint64, gi uint32) {
	t.Helper()
	if err := e.InjectXid(gpu, xid, gi, NoInstance); err != nil {
		t.Fatal(err)
	}
}

// Every set gets what happens on its GPU from its registration on, whoever else
// takes it, and an event of an instance that is gone like any other.
func TestEventSetsHLTH04(t *testing.T) {
	e := testEngine(t, "mixed")
	inject(t, e, 0, 13, NoInstance)
	first, other := listening(t, e, 0), listening(t, e, 1)
	inject(t, e, 0, 31, NoInstance)
	second := listening(t, e, 0)
	inject(t, e, 0, 94, 9)
	if diff := cmp.Diff([]uint64{31, 94}, pending(t, e, first, everything)); diff != "" {
		t.Errorf("first set (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{94}, pending(t, e, second, everything)); diff != "" {
		t.Errorf("second set (-want +got):\n%s", diff)
	}
	if got := pending(t, e, other, everything); got != nil {
		t.Errorf("the other GPU's set has %v", got)
	}
	inject(t, e, 0, 45, 9)
	inject(t, e, 0, 48, NoInstance)
	whole := func(ev Event) bool { return ev.GI == NoInstance }
	if diff := cmp.Diff([]uint64{48}, pending(t, e, first, whole)); diff != "" {
		t.Errorf("without the right to see instances (-want +got):\n%s", diff)
	}
}

func TestEventSetCodes(t *testing.T) {
	e := testEngine(t, "mixed")
	set := e.CreateEventSet()
	tests := map[string]struct {
		got  func() nvml.Return
		want nvml.Return
	}{
		"no such GPU":        {func() nvml.Return { return e.RegisterEvents(set, 2, 8) }, nvml.ERROR_INVALID_ARGUMENT},
		"clock changes":      {func() nvml.Return { return e.RegisterEvents(set, 0, nvml.EventTypeClock|8) }, nvml.ERROR_NOT_SUPPORTED},
		"unknown set":        {func() nvml.Return { return e.RegisterEvents(set+1, 0, 8) }, nvml.ERROR_UNKNOWN},
		"free unknown set":   {func() nvml.Return { return e.FreeEventSet(set + 1) }, nvml.ERROR_UNKNOWN},
		"wait on unknown":    {func() nvml.Return { _, ret := e.WaitEvent(t.Context(), set+1, 0, everything); return ret }, nvml.ERROR_UNKNOWN},
		"wait without event": {func() nvml.Return { _, ret := e.WaitEvent(t.Context(), set, time.Millisecond, everything); return ret }, nvml.ERROR_TIMEOUT},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.got(); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// Who waits is woken by an event, by the end of the set and by the end of the daemon.
func TestWaitEventWakes(t *testing.T) {
	tests := map[string]struct {
		wake func(e *Engine, set uint64, stop func())
		want nvml.Return
	}{
		"event":     {func(e *Engine, _ uint64, _ func()) { e.Emit(Event{Type: nvml.EventTypeXidCriticalError}) }, nvml.SUCCESS},
		"freed":     {func(e *Engine, set uint64, _ func()) { _ = e.FreeEventSet(set) }, nvml.ERROR_UNKNOWN},
		"cancelled": {func(_ *Engine, _ uint64, stop func()) { stop() }, nvml.ERROR_TIMEOUT},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := testEngine(t, "mixed")
			set := listening(t, e, 0)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			got := make(chan nvml.Return)
			go func() {
				_, ret := e.WaitEvent(ctx, set, time.Minute, everything)
				got <- ret
			}()
			tc.wake(e, set, stop)
			if ret := <-got; ret != tc.want {
				t.Errorf("%d, want %d", ret, tc.want)
			}
		})
	}
}

// Sets that nobody uses give way, those that somebody waits on do not.
func TestForgottenEventSets(t *testing.T) {
	e := testEngine(t, "mixed")
	forgotten, used := listening(t, e, 0), listening(t, e, 0)
	for range maxEventSets {
		pending(t, e, used, everything)
		e.CreateEventSet()
	}
	if _, ret := e.WaitEvent(t.Context(), forgotten, 0, everything); ret != nvml.ERROR_UNKNOWN {
		t.Errorf("a set that nobody used: %d", ret)
	}
	if _, ret := e.WaitEvent(t.Context(), used, 0, everything); ret != nvml.ERROR_TIMEOUT {
		t.Errorf("a set in use: %d", ret)
	}
}

// Changes of MIG tell themselves.
func TestMIGChangesAreEvents(t *testing.T) {
	e := testEngine(t, "mixed")
	set := listening(t, e, 0)
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatalf("MIG mode: %d", ret)
	}
	ev, ret := e.WaitEvent(t.Context(), set, 0, everything)
	if want := (Event{Type: nvml.EventMigConfigChange, GI: NoInstance, CI: NoInstance}); ret != nvml.SUCCESS || ev != want {
		t.Errorf("event %+v, %d, want %+v", ev, ret, want)
	}
}
