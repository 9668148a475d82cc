package simhw

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// maxEventSets bounds what programs leave behind that die without freeing
	// their sets. The set that was used longest ago goes first; one that is
	// waited on is used.
	maxEventSets = 256
	// maxQueued bounds the events of a set that nobody waits on; the oldest go first.
	maxQueued = 1024
)

// SupportedEvents are the event types that the simulated GPUs report (nvml.h,
// nvmlEventType): no changes of clocks, performance states and power source,
// since nothing makes them.
const SupportedEvents = nvml.EventTypeAll &^ (nvml.EventTypeClock | nvml.EventTypePState | nvml.EventTypePowerSourceChange)

// Event is one event of a GPU.
type Event struct {
	GPU int
	// Type is one bit of nvmlEventType.
	Type uint64
	// Data is the Xid for EventTypeXidCriticalError, the new recovery action for
	// EventTypeGpuRecoveryAction, else 0.
	Data uint64
	// GI and CI are the ids of the instances concerned, or NoInstance.
	GI, CI uint32
}

// eventSets are the sets that clients have created. They live in the daemon's
// memory only, as those of the real driver live in its own.
type eventSets struct {
	mu   sync.Mutex
	last uint64
	sets map[uint64]*eventSet
	// uses counts the uses of all sets, to find the one used longest ago.
	uses uint64
}

type eventSet struct {
	// registered are the event types by GPU.
	registered map[int]uint64
	queue      []Event
	// arrived is closed, and replaced, when an event is queued or the set freed.
	arrived chan struct{}
	used    uint64
}

// firstNumber begins the numbers of what lives in the daemon's memory, so that
// those of an earlier daemon name nothing.
func firstNumber() uint64 { return uint64(time.Now().UnixMilli()) }

// CreateEventSet makes an empty set and returns its number.
func (e *Engine) CreateEventSet() uint64 {
	s := &e.events
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets = map[uint64]*eventSet{}
		s.last = firstNumber()
	}
	if len(s.sets) >= maxEventSets {
		s.dropOldest()
	}
	s.last++
	s.uses++
	s.sets[s.last] = &eventSet{registered: map[int]uint64{}, arrived: make(chan struct{}), used: s.uses}
	return s.last
}

func (s *eventSets) dropOldest() {
	var oldest uint64
	for id, set := range s.sets {
		if oldest == 0 || set.used < s.sets[oldest].used {
			oldest = id
		}
	}
	s.free(oldest)
}

// free removes a set and wakes who waits on it. The lock is held.
func (s *eventSets) free(id uint64) {
	close(s.sets[id].arrived)
	delete(s.sets, id)
}

// find is a set that is in use now; nil if the daemon does not know it. The lock
// is held.
func (s *eventSets) find(id uint64) *eventSet {
	set := s.sets[id]
	if set != nil {
		s.uses++
		set.used = s.uses
	}
	return set
}

// RegisterEvents adds event types of a GPU to a set, which gets what happens from
// now on. NOT_SUPPORTED registers none; UNKNOWN if there is no such set, as after
// a restart of the daemon: nvml.h then has the client free the set and make another.
func (e *Engine) RegisterEvents(set uint64, gpu int, types uint64) nvml.Return {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret
	}
	if types&^SupportedEvents != 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	s := &e.events
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.find(set)
	if to == nil {
		return nvml.ERROR_UNKNOWN
	}
	to.registered[gpu] |= types
	return nvml.SUCCESS
}

// FreeEventSet removes a set and wakes who waits on it. UNKNOWN if there is none.
func (e *Engine) FreeEventSet(set uint64) nvml.Return {
	s := &e.events
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[set] == nil {
		return nvml.ERROR_UNKNOWN
	}
	s.free(set)
	return nvml.SUCCESS
}

// WaitEvent takes the next event of a set, waiting for it at most as long as
// timeout and ctx allow: then TIMEOUT. Events that the client may not see are
// skipped. UNKNOWN if there is no such set, or it goes meanwhile.
func (e *Engine) WaitEvent(ctx context.Context, set uint64, timeout time.Duration, visible func(Event) bool) (Event, nvml.Return) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		ev, arrived, ret := e.events.next(set, visible)
		if arrived == nil {
			return ev, ret
		}
		select {
		case <-arrived:
		case <-timer.C:
			return Event{}, nvml.ERROR_TIMEOUT
		case <-ctx.Done():
			return Event{}, nvml.ERROR_TIMEOUT
		}
	}
}

// next takes an event, or returns what is closed when another try is worth it.
func (s *eventSets) next(id uint64, visible func(Event) bool) (Event, <-chan struct{}, nvml.Return) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.find(id)
	if set == nil {
		return Event{}, nil, nvml.ERROR_UNKNOWN
	}
	for len(set.queue) > 0 {
		ev := set.queue[0]
		set.queue = set.queue[1:]
		if visible(ev) {
			return ev, nil, nvml.SUCCESS
		}
	}
	return Event{}, set.arrived, nvml.SUCCESS
}

// Emit gives an event to all sets that are registered for it.
func (e *Engine) Emit(ev Event) {
	s := &e.events
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range s.sets {
		if set.registered[ev.GPU]&ev.Type == 0 {
			continue
		}
		if len(set.queue) >= maxQueued {
			set.queue = set.queue[1:]
		}
		set.queue = append(set.queue, ev)
		close(set.arrived)
		set.arrived = make(chan struct{})
	}
}

// changed is told of every change while it is made: before becomes after.
func (e *Engine) changed(before, after *Snapshot) {
	e.meter(before, after)
	for i := range min(len(before.GPUs), len(after.GPUs)) {
		if before.GPUs[i].MIGEnabled != after.GPUs[i].MIGEnabled || !slices.EqualFunc(before.GPUs[i].Instances, after.GPUs[i].Instances, sameInstance) {
			e.Emit(Event{GPU: i, Type: nvml.EventMigConfigChange, GI: NoInstance, CI: NoInstance})
		}
	}
}

func sameInstance(a, b InstanceState) bool {
	return a.Serial == b.Serial && slices.EqualFunc(a.Compute, b.Compute, func(a, b ComputeState) bool { return a.Serial == b.Serial })
}
