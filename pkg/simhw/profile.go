package simhw

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

type profileKey struct{ gpu, enum int }

// ProfileOverride is what NVML says about a profile instead of the truth; zero
// leaves the truth. It lasts until the engine ends.
type ProfileOverride struct {
	// MemoryMiB is the memory of one instance in MiB.
	MemoryMiB int64
	// InstanceCount is how many instances NVML says that there can be.
	InstanceCount int
}

// OverrideProfile makes NVML say something else about the profile with that name.
func (e *Engine) OverrideProfile(gpu int, name string, o ProfileOverride) error {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return fmt.Errorf("GPU %d has no MIG profiles: %w", gpu, ret)
	}
	i := slices.IndexFunc(m.Profiles, func(p mig.Profile) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("GPU %d has no MIG profile %q: it has %s", gpu, name, profileNames(m))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.profiles[profileKey{gpu, m.Profiles[i].Enum}] = o
	return nil
}

func profileNames(m *catalog.MIG) []string {
	var out []string
	for _, p := range m.Profiles {
		out = append(out, p.Name)
	}
	return out
}

func (e *Engine) override(gpu, enum int) ProfileOverride {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.profiles[profileKey{gpu, enum}]
}

// told is a profile as NVML reports it.
func (e *Engine) told(gpu int, p mig.Profile) mig.Profile {
	if o := e.override(gpu, p.Enum); o.MemoryMiB > 0 {
		p.MemoryMiB = o.MemoryMiB
	}
	return p
}

// a30 is the PCI device id of the A30.
const a30 = 0x20b7

// ReportedCount is how many instances of a profile NVML says that there can be.
// On the A30 that is wrong, so that NVIDIA's mig-parted (pkg/mig/discovery) does
// not ask NVML there. It does not tell the wrong values; here they are those of
// the GPUs with seven slices, which is a guess.
func (e *Engine) ReportedCount(gpu int, p mig.Profile) int {
	if o := e.override(gpu, p.Enum); o.InstanceCount > 0 {
		return o.InstanceCount
	}
	if e.server.GPUs[gpu].Model.PCI.Device == a30 {
		if wrong, ok := map[int]int{mig.Profile1Slice: 7, mig.Profile2Slice: 3}[p.Enum]; ok {
			return wrong
		}
	}
	return p.MaxInstances
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
			return e.told(gpu, p), nvml.SUCCESS
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
	return e.told(gpu, p), nvml.SUCCESS
}
