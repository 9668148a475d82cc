package simhw

import (
	"context"
	"sync/atomic"
)

// moment is one state in the order of all states. Whoever holds one finds every
// later one, however slow he is.
type moment struct {
	Snapshot Snapshot
	number   uint64
	next     atomic.Pointer[moment]
	over     chan struct{}
}

func newMoment(s Snapshot) *moment { return &moment{Snapshot: s, over: make(chan struct{})} }

// follow makes the next moment; the engine's lock is held.
func (m *moment) follow(s Snapshot) *moment {
	next := newMoment(s)
	next.number = m.number + 1
	m.next.Store(next)
	close(m.over)
	return next
}

// Watch calls do with the present state and then with each one that follows, none
// left out, until ctx ends or do fails.
func (e *Engine) Watch(ctx context.Context, do func(Snapshot) error) error {
	m := e.moment()
	for {
		if err := do(m.Snapshot); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.over:
			m = m.next.Load()
		}
	}
}

// Sequence numbers the states, so that a client can be told what it has missed.
func (e *Engine) Sequence() uint64 { return e.moment().number }
