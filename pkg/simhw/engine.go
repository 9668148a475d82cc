// Package simhw is the simulated hardware: the rules by which the GPUs of one
// node behave, with their state. Subpackages serve it to other processes through
// a libnvidia-ml.so.1 of its own and write the file tree of a driver around it.
//
// Return codes and rules are those of nvml.h (NVIDIA/go-nvml, pkg/nvml/nvml.h)
// and of NVIDIA's MIG User Guide; where neither says, comments do.
package simhw

import (
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// Options are what a caller may choose about an engine.
type Options struct {
	// Seed makes the GPUs' UUIDs; nodes with different seeds have different
	// GPUs. Empty means the server's name.
	Seed string
	// StateFile keeps the state over restarts; empty means in memory only.
	StateFile string
	// Latency is how long changes take; the zero value means no time at all.
	Latency Latency
	// Observe is called with every new state before the change that led to it
	// returns, and once by NewEngine; calls never overlap. May be nil.
	Observe func(Snapshot)
	// Sleep waits; nil means time.Sleep.
	Sleep func(time.Duration)
}

// Engine is the GPUs of one server. Its methods may be called concurrently.
// Changes of one GPU happen one after the other, as in the real driver; reads
// never wait for a change that is under way.
type Engine struct {
	server  catalog.Server
	options Options
	// changing has one lock for each GPU, held while a change takes its time.
	changing []sync.Mutex
	events   eventSets
	gauges   gauges

	mu sync.Mutex
	// state is never modified, only replaced.
	state *Snapshot
}

// NewEngine makes the server's GPUs, or takes up the state in the options' file.
// It fails if that file belongs to another server or seed, or cannot be read.
func NewEngine(server catalog.Server, o Options) (*Engine, error) {
	if o.Seed == "" {
		o.Seed = server.Name
	}
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	if o.Observe == nil {
		o.Observe = func(Snapshot) {}
	}
	e := &Engine{server: server, options: o, changing: make([]sync.Mutex, len(server.GPUs))}
	state, err := loadState(o.StateFile, server, o.Seed)
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = fresh(server, o.Seed, 1, 1)
		if err := saveState(o.StateFile, state); err != nil {
			return nil, err
		}
	}
	e.state = state
	o.Observe(*state)
	return e, nil
}

// fresh is the state of a server that has just booted.
func fresh(server catalog.Server, seed string, boot int, nextSerial uint64) *Snapshot {
	s := &Snapshot{Server: server.Name, Seed: seed, Boot: boot, NextSerial: nextSerial}
	for i, g := range server.GPUs {
		s.GPUs = append(s.GPUs, GPUState{
			Index: i, Minor: g.Minor, PCI: g.PCI, UUID: catalog.UUID(seed, i),
			Product: g.Model.ProductName, MIGCapable: g.Model.MIG != nil,
		})
	}
	return s
}

// Server is what the engine simulates.
func (e *Engine) Server() catalog.Server { return e.server }

// Snapshot is the present state. The caller must not modify it.
func (e *Engine) Snapshot() Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.state
}

// Reboot is what a reboot of the node does: instances are gone, and MIG mode is
// off where it does not survive a reboot (Hopper and newer).
func (e *Engine) Reboot() error {
	for i := range e.changing {
		e.changing[i].Lock()
		defer e.changing[i].Unlock()
	}
	return e.commit(func(s *Snapshot) {
		next := fresh(e.server, e.options.Seed, s.Boot+1, s.NextSerial)
		for i := range next.GPUs {
			if m := e.server.GPUs[i].Model.MIG; m != nil && m.ModeNeedsReset {
				next.GPUs[i].MIGEnabled = s.GPUs[i].MIGEnabled
			}
			next.GPUs[i].Health = s.GPUs[i].Health.afterReset()
		}
		*s = *next
	})
}

// commit makes a change durable, then visible, then tells the observer.
func (e *Engine) commit(change func(*Snapshot)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.state.clone()
	change(next)
	if err := saveState(e.options.StateFile, next); err != nil {
		return err
	}
	e.changed(e.state, next)
	e.state = next
	e.options.Observe(*next)
	return nil
}

// commitCode is commit for NVML: a state that cannot be kept is an unknown error.
func (e *Engine) commitCode(change func(*Snapshot)) nvml.Return {
	if err := e.commit(change); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	return nvml.SUCCESS
}

// model is the catalog's entry for a GPU.
func (e *Engine) model(gpu int) (catalog.Model, nvml.Return) {
	if gpu < 0 || gpu >= len(e.server.GPUs) {
		return catalog.Model{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return e.server.GPUs[gpu].Model, nvml.SUCCESS
}

// migModel is the same for calls that only GPUs with MIG answer.
func (e *Engine) migModel(gpu int) (*catalog.MIG, nvml.Return) {
	m, ret := e.model(gpu)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	if m.MIG == nil {
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	return m.MIG, nvml.SUCCESS
}

// String names the simulation in logs.
func (e *Engine) String() string {
	return fmt.Sprintf("simulated %s (%d GPUs, seed %s)", e.server.Name, len(e.server.GPUs), e.options.Seed)
}
