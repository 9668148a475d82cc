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
// NOT_SUPPORTED with MIG off, INSUFFICIENT_RESOURCES if the placement is taken or
// the profile's maximum reached, INVALID_ARGUMENT for what the GPU does not offer.
func (e *Engine) CreateGPUInstance(gpu, profileID int, at *mig.Placement) (InstanceState, nvml.Return) {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return InstanceState{}, ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
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
	if remaining(g, p) == 0 {
		return InstanceState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	if at == nil {
		starts := mig.Starts(p, m.Profiles)
		at = &starts[slices.IndexFunc(starts, func(pl mig.Placement) bool { return free(g, pl) })]
	}
	id, ok := freeID(m, g, at.Size)
	if !ok || !free(g, *at) {
		return InstanceState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	return InstanceState{ID: id, ProfileEnum: p.Enum, ProfileID: p.ID, Profile: p.Name, Placement: *at}, nvml.SUCCESS
}

// DestroyGPUInstance removes an instance. IN_USE while it has compute instances,
// INVALID_ARGUMENT if the handle's instance is gone.
func (e *Engine) DestroyGPUInstance(h Handle) nvml.Return {
	if _, ret := e.migModel(h.GPU); ret != nvml.SUCCESS {
		return ret
	}
	e.changing[h.GPU].Lock()
	defer e.changing[h.GPU].Unlock()
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return ret
	}
	if len(in.Compute) > 0 {
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

// RemainingCapacity is how many more instances of the profile fit now.
func (e *Engine) RemainingCapacity(gpu, profileID int) (int, nvml.Return) {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	p, ok := profileByID(m, profileID)
	g := e.Snapshot().GPUs[gpu]
	if !ok || !g.MIGEnabled {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	return remaining(g, p), nvml.SUCCESS
}

// remaining takes placements from the left; for intervals of one size that is
// optimal.
func remaining(g GPUState, p mig.Profile) int {
	made, n, end := 0, 0, 0
	for _, in := range g.Instances {
		if in.ProfileEnum == p.Enum {
			made++
		}
	}
	for _, pl := range p.Placements {
		if pl.Start >= end && free(g, pl) {
			n, end = n+1, pl.End()
		}
	}
	return max(0, min(n, p.MaxInstances-made))
}

func free(g GPUState, pl mig.Placement) bool {
	return !slices.ContainsFunc(g.Instances, func(in InstanceState) bool { return in.Placement.Overlaps(pl) })
}

// freeID is the smallest free id of the placement's size class. The classes are
// those seen on seven-slice GPUs: the whole has 0, halves 1 and 2, quarters 3 to
// 6, eighths 7 to 14 (NVIDIA/DCGM#138, where the order within a class differs
// from GPU to GPU).
func freeID(m *catalog.MIG, g GPUState, size int) (int, bool) {
	parts := m.MemorySlices / size
	for id := parts - 1; id <= 2*parts-2; id++ {
		if _, used := g.Instance(id); !used {
			return id, true
		}
	}
	return 0, false
}

func profileByID(m *catalog.MIG, id int) (mig.Profile, bool) {
	i := slices.IndexFunc(m.Profiles, func(p mig.Profile) bool { return p.ID == id })
	if i < 0 {
		return mig.Profile{}, false
	}
	return m.Profiles[i], true
}

// Profile is the profile with NVML's enum value. INVALID_ARGUMENT beyond the
// enum, NOT_SUPPORTED for one that this GPU does not offer.
func (e *Engine) Profile(gpu, enum int) (mig.Profile, nvml.Return) {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return mig.Profile{}, ret
	}
	if enum < 0 || enum >= nvml.GPU_INSTANCE_PROFILE_COUNT {
		return mig.Profile{}, nvml.ERROR_INVALID_ARGUMENT
	}
	for _, p := range m.Profiles {
		if p.Enum == enum {
			return p, nvml.SUCCESS
		}
	}
	return mig.Profile{}, nvml.ERROR_NOT_SUPPORTED
}

// ProfileByID is the profile with NVML's profile ID.
func (e *Engine) ProfileByID(gpu, id int) (mig.Profile, nvml.Return) {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return mig.Profile{}, ret
	}
	p, ok := profileByID(m, id)
	if !ok {
		return mig.Profile{}, nvml.ERROR_NOT_SUPPORTED
	}
	return p, nvml.SUCCESS
}
