package simhw

import (
	"cmp"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Handle names a GPU instance or a compute instance for as long as it lives:
// the serial of one that is gone never comes back.
type Handle struct {
	GPU    int
	Serial uint64
}

// CreateGPUInstance makes an instance of the profile with NVML's profile ID. A
// nil placement lets the driver choose; mig.Starts has the order it prefers.
// NOT_SUPPORTED with MIG off, INSUFFICIENT_RESOURCES if the placement is taken,
// the profile's maximum reached or a profile there that excludes this one,
// INVALID_ARGUMENT for what the GPU does not offer.
func (e *Engine) CreateGPUInstance(gpu, profileID int, at *mig.Placement) (InstanceState, nvml.Return) {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return InstanceState{}, ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return InstanceState{}, ret
	}
	g := e.Snapshot().GPUs[gpu]
	in, ret := newInstance(m, g, profileID, at)
	if ret != nvml.SUCCESS {
		return InstanceState{}, ret
	}
	e.options.Sleep(e.options.Latency.CreateGPUInstance)
	ret = e.commitCode(func(s *Snapshot) {
		in.Serial = s.serial()
		g := &s.GPUs[gpu]
		g.Instances = append(g.Instances, in)
		slices.SortFunc(g.Instances, func(a, b InstanceState) int { return cmp.Compare(a.ID, b.ID) })
	})
	return in, ret
}

// newInstance decides whether and where an instance can be, without a serial.
func newInstance(m *catalog.MIG, g GPUState, profileID int, at *mig.Placement) (InstanceState, nvml.Return) {
	if !g.MIGEnabled {
		return InstanceState{}, nvml.ERROR_NOT_SUPPORTED
	}
	p, ok := profileByID(m, profileID)
	if !ok || at != nil && !p.Has(*at) {
		return InstanceState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	if remaining(m, g, p) == 0 {
		return InstanceState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	if at == nil {
		starts := mig.Starts(p, m.Profiles)
		at = &starts[slices.IndexFunc(starts, func(pl mig.Placement) bool { return free(g, pl) })]
	}
	if !free(g, *at) {
		return InstanceState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	return InstanceState{
		ID: instanceID(m, g.UUID, *at), ProfileEnum: p.Enum, ProfileID: p.ID, Profile: p.Name, Placement: *at,
	}, nvml.SUCCESS
}

// DestroyGPUInstance removes an instance. IN_USE while it has compute instances,
// or had one a moment ago (Latency.Release); INVALID_ARGUMENT if the handle's
// instance is gone.
func (e *Engine) DestroyGPUInstance(h Handle) nvml.Return {
	if _, ret := e.model(h.GPU); ret != nvml.SUCCESS {
		return ret
	}
	e.changing[h.GPU].Lock()
	defer e.changing[h.GPU].Unlock()
	if _, ret := e.migModel(h.GPU); ret != nvml.SUCCESS {
		return ret
	}
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return ret
	}
	if len(in.Compute) > 0 || e.isBusy(in.Serial) {
		return nvml.ERROR_IN_USE
	}
	e.options.Sleep(e.options.Latency.DestroyGPUInstance)
	return e.commitCode(func(s *Snapshot) {
		g := &s.GPUs[h.GPU]
		g.Instances = slices.DeleteFunc(g.Instances, func(in InstanceState) bool { return in.Serial == h.Serial })
	})
}

// GPUInstance is the handle's instance; INVALID_ARGUMENT if it is gone.
func (e *Engine) GPUInstance(h Handle) (InstanceState, nvml.Return) {
	s := e.Snapshot()
	if h.GPU < 0 || h.GPU >= len(s.GPUs) {
		return InstanceState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	in, ok := s.GPUs[h.GPU].bySerial(h.Serial)
	if !ok {
		return InstanceState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return *in, nvml.SUCCESS
}
