// Package simhw is the simulated hardware: the rules by which the GPUs and NICs of
// one node behave, with their state. Subpackages serve it to other processes through
// a libnvidia-ml.so.1 of its own and write the file tree of a driver around it.
//
// Return codes and rules are those of nvml.h (NVIDIA/go-nvml, pkg/nvml/nvml.h)
// and of NVIDIA's MIG User Guide; where neither says, comments do.
package simhw

import (
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// Engine is the GPUs and NICs of one server. Its methods may be called concurrently.
// Changes of one GPU happen one after the other, as in the real driver; reads
// never wait for a change that is under way.
type Engine struct {
	server  catalog.Server
	options Options
	faults  faults
	stats   stats
	// changing has one lock for each GPU, held while a change takes its time.
	changing []sync.Mutex
	// nics is held while NICs are changed.
	nics   sync.Mutex
	events eventSets
	gauges gauges

	mu sync.Mutex
	// now is the present state. States are never modified, only followed by others.
	now *moment
	// profiles are what NVML says otherwise than the catalog.
	profiles map[profileKey]ProfileOverride
	// busy are GPU instances that stay in use for a while yet.
	busy map[uint64]deadline
	// stale are MIG devices that are gone, by GPU, while a fault remembers them.
	stale map[int][]staleDevice
}

// NewEngine makes the server's GPUs, or takes up the state in the options' file.
// It fails if that file belongs to another server or seed, or cannot be read.
func NewEngine(server catalog.Server, o Options) (*Engine, error) {
	o.complete(server)
	if err := o.check(server); err != nil {
		return nil, err
	}
	e := &Engine{
		server: server, options: o, changing: make([]sync.Mutex, len(server.GPUs)),
		profiles: map[profileKey]ProfileOverride{}, busy: map[uint64]deadline{}, stale: map[int][]staleDevice{},
	}
	state, err := loadState(o.StateFile, server, o.Seed)
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = fresh(server, o)
	}
	if state.NICs == nil { // also in a state from before there were any
		state.NICs, state.Network = freshNICs(server, o.Seed), freshNetwork()
	}
	state.BootID = bootID(o.Seed, state.Boot)
	state.Driver = loadedDriver(server)
	for i := range state.GPUs {
		state.GPUs[i].MIGCapable = o.migCapable(server.GPUs[i].Model)
	}
	if err := saveState(o.StateFile, state); err != nil {
		return nil, err
	}
	e.now = newMoment(*state)
	o.Observe(*state)
	e.awaitNICs()
	return e, nil
}

// fresh is the state of a server that boots for the first time.
func fresh(server catalog.Server, o Options) *Snapshot {
	s := &Snapshot{Server: server.Name, Seed: o.Seed, Boot: 1, NextSerial: 1}
	for i, g := range server.GPUs {
		s.GPUs = append(s.GPUs, GPUState{
			Index: i, Minor: o.Minors[i], PCI: g.PCI, UUID: gpuUUID(o.Seed, i, 0),
			Product: g.Model.ProductName,
		})
	}
	return s
}

// Server is what the engine simulates.
func (e *Engine) Server() catalog.Server { return e.server }

// Virtualization is the kind of machine that the engine plays.
func (e *Engine) Virtualization() Virtualization { return e.options.Virtualization }

// Snapshot is the present state. The caller must not modify it.
func (e *Engine) Snapshot() Snapshot { return e.moment().Snapshot }

func (e *Engine) moment() *moment {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// commit makes a change durable, then tells the observer, then makes it visible.
func (e *Engine) commit(change func(*Snapshot)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.now.Snapshot.clone()
	change(next)
	if err := saveState(e.options.StateFile, next); err != nil {
		return err
	}
	e.changed(&e.now.Snapshot, next)
	// Watchers come last, since they may look at what the observer does.
	e.options.Observe(*next)
	e.now = e.now.follow(*next)
	return nil
}

// commitCode is commit for NVML: a state that cannot be kept is an unknown error.
func (e *Engine) commitCode(change func(*Snapshot)) nvml.Return {
	if err := e.commit(change); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	return nvml.SUCCESS
}

// lockAll waits for all changes that are under way and keeps new ones out.
func (e *Engine) lockAll() (unlock func()) {
	for i := range e.changing {
		e.changing[i].Lock()
	}
	e.nics.Lock()
	return func() {
		e.nics.Unlock()
		for i := range e.changing {
			e.changing[i].Unlock()
		}
	}
}

// model is the catalog's entry for a GPU.
func (e *Engine) model(gpu int) (catalog.Model, nvml.Return) {
	if gpu < 0 || gpu >= len(e.server.GPUs) {
		return catalog.Model{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return e.server.GPUs[gpu].Model, nvml.SUCCESS
}

// migModel is the same for calls that only GPUs with MIG answer. A GPU that is
// not in its slot or does not answer is lost.
func (e *Engine) migModel(gpu int) (*catalog.MIG, nvml.Return) {
	m, ret := e.model(gpu)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	g := e.Snapshot().GPUs[gpu]
	switch {
	case g.Gone():
		return nil, nvml.ERROR_GPU_IS_LOST
	case !g.MIGCapable:
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	return m.MIG, nvml.SUCCESS
}

// String names the simulation in logs.
func (e *Engine) String() string {
	return fmt.Sprintf("simulated %s (%d GPUs, %d NICs, seed %s)", e.server.Name, len(e.server.GPUs), len(e.server.NICs), e.options.Seed)
}
