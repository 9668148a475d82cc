package simhw

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Verdict is what is to become of a call.
type Verdict struct {
	// Return ends the call, unless it is SUCCESS.
	Return nvml.Return
	// NoEffect ends it with success; what it should do is done Late after, or
	// never if that is 0.
	NoEffect bool
	Late     time.Duration
	// Pends makes a MIG mode pend.
	Pends bool
}

// Ends tells whether the call ends here, and with what.
func (v Verdict) Ends() (nvml.Return, bool) {
	return v.Return, v.Return != nvml.SUCCESS || v.NoEffect
}

// Enter is where every call begins: it is counted, it needs the driver and its
// GPU, and it meets the faults. It may wait long; ctx ends that, with TIMEOUT.
func (e *Engine) Enter(ctx context.Context, c Call) Verdict {
	e.stats.count(c)
	if ret := e.reachable(c); ret != nvml.SUCCESS {
		return Verdict{Return: ret}
	}
	f := e.faults.strike(c)
	if f == nil {
		return Verdict{}
	}
	if ret := e.faults.hold(ctx, f); ret != nvml.SUCCESS {
		return Verdict{Return: ret}
	}
	// The driver or the GPU may have gone while the call waited.
	if ret := e.reachable(c); ret != nvml.SUCCESS {
		return Verdict{Return: ret}
	}
	return Verdict{Return: f.Return, NoEffect: f.NoEffect, Late: f.Late, Pends: f.Pends}
}

// reachable tells whether there is something that could answer.
func (e *Engine) reachable(c Call) nvml.Return {
	s := e.Snapshot()
	switch {
	case s.Driver.Unloaded:
		return nvml.ERROR_DRIVER_NOT_LOADED
	case s.Driver.Mismatch && BaseName(c.Function) == CallInit:
		return nvml.ERROR_LIB_RM_VERSION_MISMATCH
	case c.GPU >= 0 && c.GPU < len(s.GPUs) && s.GPUs[c.GPU].Gone():
		return nvml.ERROR_GPU_IS_LOST
	}
	return nvml.SUCCESS
}

// Stats counts calls since the engine began.
type Stats struct {
	// Calls are all, by function.
	Calls map[string]int `json:"calls"`
	// Changes are those of functions that change something, whether they
	// succeeded or not.
	Changes int `json:"changes"`
}

type stats struct {
	mu sync.Mutex
	Stats
}

func (s *stats) count(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Calls == nil {
		s.Calls = map[string]int{}
	}
	s.Calls[c.Function]++
	if c.Changes {
		s.Changes++
	}
}

// Stats is what was counted so far.
func (e *Engine) Stats() Stats {
	e.stats.mu.Lock()
	defer e.stats.mu.Unlock()
	return Stats{Calls: maps.Clone(e.stats.Calls), Changes: e.stats.Changes}
}
