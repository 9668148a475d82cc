package simhw

import (
	"cmp"
	"crypto/rand"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// maxComputeInstances is how many capability minors a GPU instance has.
const maxComputeInstances = 8

// CreateComputeInstance makes a compute instance of the profile with NVML's
// profile ID in a GPU instance, and with it a MIG device with a new UUID. A nil
// placement takes the first free one. INSUFFICIENT_RESOURCES if the compute
// slices are taken, NOT_SUPPORTED for a profile that the GPU instance lacks.
func (e *Engine) CreateComputeInstance(h Handle, profileID int, at *mig.Placement) (ComputeState, nvml.Return) {
	if _, ret := e.model(h.GPU); ret != nvml.SUCCESS {
		return ComputeState{}, ret
	}
	e.changing[h.GPU].Lock()
	defer e.changing[h.GPU].Unlock()
	if _, ret := e.migModel(h.GPU); ret != nvml.SUCCESS {
		return ComputeState{}, ret
	}
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return ComputeState{}, ret
	}
	p, ret := e.ComputeProfileByID(h, profileID)
	if ret != nvml.SUCCESS {
		return ComputeState{}, ret
	}
	c, ret := newCompute(in, p, e.giSlices(h.GPU, in), at)
	if ret != nvml.SUCCESS {
		return ComputeState{}, ret
	}
	e.options.Sleep(e.options.Latency.CreateComputeInstance)
	ret = e.commitCode(func(s *Snapshot) {
		c.Serial = s.serial()
		in, _ := s.GPUs[h.GPU].bySerial(h.Serial)
		in.Compute = append(in.Compute, c)
		slices.SortFunc(in.Compute, func(a, b ComputeState) int { return cmp.Compare(a.ID, b.ID) })
	})
	return c, ret
}

func newCompute(in InstanceState, p catalog.ComputeProfile, slicesOfGI int, at *mig.Placement) (ComputeState, nvml.Return) {
	possible := computePlacements(p, slicesOfGI)
	if at != nil && !slices.Contains(possible, *at) {
		return ComputeState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	if at == nil {
		i := slices.IndexFunc(possible, func(pl mig.Placement) bool { return freeCompute(in, pl) })
		if i < 0 {
			return ComputeState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
		}
		at = &possible[i]
	}
	if !freeCompute(in, *at) {
		return ComputeState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	for id := range maxComputeInstances {
		if _, used := in.ComputeInstance(id); !used {
			return ComputeState{ID: id, ProfileEnum: p.Enum, ProfileID: p.ID, Placement: *at, UUID: newMIGUUID()}, nvml.SUCCESS
		}
	}
	return ComputeState{}, nvml.ERROR_INSUFFICIENT_RESOURCES
}

// DestroyComputeInstance removes a compute instance and its MIG device. IN_USE
// while a process runs on it, INVALID_ARGUMENT if the handle's instance is gone.
func (e *Engine) DestroyComputeInstance(h Handle) nvml.Return {
	if _, ret := e.model(h.GPU); ret != nvml.SUCCESS {
		return ret
	}
	e.changing[h.GPU].Lock()
	defer e.changing[h.GPU].Unlock()
	if _, ret := e.migModel(h.GPU); ret != nvml.SUCCESS {
		return ret
	}
	d, ret := e.ComputeInstance(h)
	if ret != nvml.SUCCESS {
		return ret
	}
	if e.Snapshot().GPUs[h.GPU].runs(d.Instance.ID, d.Compute.ID) {
		return nvml.ERROR_IN_USE
	}
	e.options.Sleep(e.options.Latency.DestroyComputeInstance)
	e.keepStale(d)
	e.keepBusy(d.Instance.Serial)
	return e.commitCode(func(s *Snapshot) {
		in, _ := s.GPUs[h.GPU].bySerial(d.Instance.Serial)
		in.Compute = slices.DeleteFunc(in.Compute, func(c ComputeState) bool { return c.Serial == h.Serial })
	})
}

// ComputeInstance is the handle's; INVALID_ARGUMENT if it is gone.
func (e *Engine) ComputeInstance(h Handle) (MIGDevice, nvml.Return) {
	s := e.Snapshot()
	if h.GPU < 0 || h.GPU >= len(s.GPUs) {
		return MIGDevice{}, nvml.ERROR_INVALID_ARGUMENT
	}
	for _, d := range s.MIGDevices(h.GPU) {
		if d.Compute.Serial == h.Serial {
			return d, nvml.SUCCESS
		}
	}
	return MIGDevice{}, nvml.ERROR_INVALID_ARGUMENT
}

// ComputeProfile is the profile with NVML's enum value in a GPU instance.
func (e *Engine) ComputeProfile(h Handle, enum int) (catalog.ComputeProfile, nvml.Return) {
	if enum < 0 || enum >= nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		return catalog.ComputeProfile{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return e.computeProfile(h, func(p catalog.ComputeProfile) bool { return p.Enum == enum })
}

// ComputeProfileByID is the profile with NVML's profile ID in a GPU instance.
func (e *Engine) ComputeProfileByID(h Handle, id int) (catalog.ComputeProfile, nvml.Return) {
	return e.computeProfile(h, func(p catalog.ComputeProfile) bool { return p.ID == id })
}

func (e *Engine) computeProfile(h Handle, is func(catalog.ComputeProfile) bool) (catalog.ComputeProfile, nvml.Return) {
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return catalog.ComputeProfile{}, ret
	}
	offered := e.server.GPUs[h.GPU].Model.MIG.ComputeProfiles[in.ProfileEnum]
	i := slices.IndexFunc(offered, is)
	if i < 0 {
		return catalog.ComputeProfile{}, nvml.ERROR_NOT_SUPPORTED
	}
	return offered[i], nvml.SUCCESS
}

// ComputePlacements are all placements of the profile in a GPU instance.
func (e *Engine) ComputePlacements(h Handle, profileID int) ([]mig.Placement, nvml.Return) {
	p, ret := e.ComputeProfileByID(h, profileID)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	return computePlacements(p, e.giSlices(h.GPU, in)), nvml.SUCCESS
}

// RemainingCompute is how many more compute instances of the profile fit now.
func (e *Engine) RemainingCompute(h Handle, profileID int) (int, nvml.Return) {
	possible, ret := e.ComputePlacements(h, profileID)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	in, ret := e.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	n, end := 0, 0
	for _, pl := range possible {
		if pl.Start >= end && freeCompute(in, pl) {
			n, end = n+1, pl.End()
		}
	}
	return n, nvml.SUCCESS
}

// computePlacements: a compute instance starts at a multiple of its size, rounded
// up to a power of two, and ends within the GPU instance. No public source lists
// them all; this agrees with the maximum counts that nvidia-smi prints.
func computePlacements(p catalog.ComputeProfile, slicesOfGI int) []mig.Placement {
	step := 1
	for step < p.Slices {
		step *= 2
	}
	var out []mig.Placement
	for start := 0; start+p.Slices <= slicesOfGI; start += step {
		out = append(out, mig.Placement{Start: start, Size: p.Slices})
	}
	return out
}

func (e *Engine) giSlices(gpu int, in InstanceState) int {
	p, _ := profileByID(e.server.GPUs[gpu].Model.MIG, in.ProfileID)
	return p.Slices
}

func freeCompute(in InstanceState, pl mig.Placement) bool {
	return !slices.ContainsFunc(in.Compute, func(c ComputeState) bool { return c.Placement.Overlaps(pl) })
}

func newMIGUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, it aborts the process instead
	return catalog.FormatUUID("MIG-", b)
}
