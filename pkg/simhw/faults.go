package simhw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// faults is the table of what goes wrong.
type faults struct {
	mu     sync.Mutex
	lastID int
	// table is in the order in which faults came.
	table []*faultEntry
}

type faultEntry struct {
	Fault
	// released is closed when the fault holds nobody any more.
	released chan struct{}
	once     sync.Once
}

func (f *faultEntry) release() { f.once.Do(func() { close(f.released) }) }

// AddFault makes something go wrong from now on, and returns it with its ID. Of
// all faults that meet a call the oldest strikes.
func (e *Engine) AddFault(f Fault) (Fault, error) {
	if err := f.check(); err != nil {
		return f, err
	}
	if f.GPU != nil {
		if _, ret := e.model(*f.GPU); ret != nvml.SUCCESS {
			return f, fmt.Errorf("GPU %d: %w; slots go from 0 to %d", *f.GPU, errNoSlot, len(e.server.GPUs)-1)
		}
	}
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	e.faults.lastID++
	f.ID, f.Struck, f.Waiting = e.faults.lastID, 0, 0
	e.faults.table = append(e.faults.table, &faultEntry{Fault: f, released: make(chan struct{})})
	return f, nil
}

// Faults lists all, also those that strike no more, in the order of their IDs.
func (e *Engine) Faults() []Fault {
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	out := make([]Fault, 0, len(e.faults.table))
	for _, f := range e.faults.table {
		out = append(out, f.Fault)
	}
	return out
}

var errNoFault = errors.New("there is no such fault")

// ClearFault removes a fault and lets the calls go that it holds; 0 means all.
func (e *Engine) ClearFault(id int) error {
	return e.faults.end(id, func(f *faultEntry) bool { f.release(); return true })
}

// ReleaseFault lets the calls go that a fault holds or delays, and those that it
// would hold later; what else it does goes on. 0 means all faults.
func (e *Engine) ReleaseFault(id int) error {
	return e.faults.end(id, func(f *faultEntry) bool { f.release(); return false })
}

// end does something to one fault or to all, and removes those where it says so.
func (f *faults) end(id int, do func(*faultEntry) (remove bool)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != 0 && !slices.ContainsFunc(f.table, func(e *faultEntry) bool { return e.ID == id }) {
		return fmt.Errorf("fault %d: %w", id, errNoFault)
	}
	f.table = slices.DeleteFunc(f.table, func(e *faultEntry) bool { return (id == 0 || e.ID == id) && do(e) })
	return nil
}

// strike finds the fault that meets the call; nil if there is none. Faults of the
// enumeration do not strike calls: stale asks for them.
func (f *faults) strike(c Call) *faultEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.table {
		if !e.Stale && e.meets(c) {
			e.Struck++
			return e
		}
	}
	return nil
}

// stale tells whether a GPU's enumeration by index is out of date.
func (f *faults) stale(gpu int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.table, func(e *faultEntry) bool { return e.Stale && (e.GPU == nil || *e.GPU == gpu) })
}

// hold waits as the fault says; TIMEOUT if ctx ends first.
func (f *faults) hold(ctx context.Context, e *faultEntry) nvml.Return {
	if !e.Block && e.Delay == 0 {
		return nvml.SUCCESS
	}
	var over <-chan time.Time // never, if it blocks
	if !e.Block {
		timer := time.NewTimer(e.Delay)
		defer timer.Stop()
		over = timer.C
	}
	f.waiting(e, 1)
	defer f.waiting(e, -1)
	select {
	case <-e.released:
	case <-over:
	case <-ctx.Done():
		return nvml.ERROR_TIMEOUT
	}
	return nvml.SUCCESS
}

func (f *faults) waiting(e *faultEntry, change int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Waiting += change
}
