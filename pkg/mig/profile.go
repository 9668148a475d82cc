// Package mig is the arithmetic of NVIDIA Multi-Instance GPU (MIG): profiles,
// placements, shared counters, conflicts and the order in which placements are
// best handed out. It is pure and knows no model: all figures come from NVML.
package mig

import "slices"

// NVML's GPU-instance profile enumeration, as far as Cleave gives a profile a
// name of its own (nvml.h, NVML_GPU_INSTANCE_PROFILE_*).
const (
	Profile1Slice     = 0x0
	Profile2Slice     = 0x1
	Profile3Slice     = 0x2
	Profile4Slice     = 0x3
	Profile7Slice     = 0x4
	Profile8Slice     = 0x5
	Profile6Slice     = 0x6
	Profile1SliceRev1 = 0x7 // with media engines, "+me"
	Profile2SliceRev1 = 0x8 // with media engines, "+me"
	Profile1SliceRev2 = 0x9 // with twice the memory
	// From here on only some GPUs of the Blackwell generation.
	Profile1SliceGfx   = 0xA  // can do graphics, "+gfx"
	Profile2SliceGfx   = 0xB  // can do graphics, "+gfx"
	Profile4SliceGfx   = 0xC  // can do graphics, "+gfx"
	Profile1SliceNoMe  = 0xD  // without media engines, "-me"
	Profile2SliceNoMe  = 0xE  // without media engines, "-me"
	Profile1SliceAllMe = 0xF  // with all media engines of the GPU, "+me.all"
	Profile2SliceAllMe = 0x10 // with all media engines of the GPU, "+me.all"
	Profile3SliceGfx   = 0x11 // can do graphics, "+gfx"
	// ProfileCount is the number of enum values to ask NVML about. Values that
	// a GPU or a driver does not know answer NOT_SUPPORTED or INVALID_ARGUMENT.
	ProfileCount = 0x12
)

// Placement is a run of memory slices, the unit in which NVML places a GPU
// instance. It is what makes two instances exclude each other.
type Placement struct {
	// Start is the first memory slice, counted from 0.
	Start int `json:"start"`
	// Size is the number of memory slices.
	Size int `json:"size"`
}

// End is the first slice after the placement.
func (p Placement) End() int { return p.Start + p.Size }

// Overlaps tells whether two placements of one GPU share a memory slice.
func (p Placement) Overlaps(q Placement) bool { return p.Start < q.End() && q.Start < p.End() }

// Engines are the parts of a GPU that an instance gets a share of, as counts.
type Engines struct {
	Multiprocessors int `json:"multiprocessors"`
	CopyEngines     int `json:"copyEngines"`
	Decoders        int `json:"decoders"`
	Encoders        int `json:"encoders"`
	JPEGEngines     int `json:"jpegEngines"`
	OFAEngines      int `json:"ofaEngines"`
}

// Profile is one kind of GPU instance that a GPU offers, with NVML's figures.
type Profile struct {
	// Enum is NVML's GPU-instance profile enum value; create calls take the ID
	// that NVML reports for it, see ID.
	Enum int `json:"enum"`
	// ID is the profile ID that NVML reports and nvidia-smi prints (19, 14, 9 ...).
	ID int `json:"id"`
	// Name is the profile's name as nvidia-smi prints it, without "MIG ".
	Name string `json:"name"`
	// Slices is the number of compute slices.
	Slices int `json:"slices"`
	// MaxInstances is how many instances of this profile an empty GPU takes.
	MaxInstances int `json:"maxInstances"`
	// MemoryMiB is the memory of one instance in MiB.
	MemoryMiB int64 `json:"memoryMiB"`
	Engines
	// Placements are all legal placements, in ascending order of their start.
	Placements []Placement `json:"placements"`
}

// Media tells whether the profile is a variant that takes the GPU's extra media
// engines ("+me", "+me.all"), of which each GPU has one.
func (p Profile) Media() bool {
	switch p.Enum {
	case Profile1SliceRev1, Profile2SliceRev1, Profile1SliceAllMe, Profile2SliceAllMe:
		return true
	}
	return false
}

// Has tells whether pl is one of the profile's legal placements.
func (p Profile) Has(pl Placement) bool { return slices.Contains(p.Placements, pl) }

// Disjoint is the largest number of placements of p that do not overlap.
// Taking the earliest end first is optimal for intervals.
func (p Profile) Disjoint() int {
	sorted := slices.Clone(p.Placements)
	slices.SortFunc(sorted, func(a, b Placement) int { return a.End() - b.End() })
	n, end := 0, 0
	for _, pl := range sorted {
		if pl.Start >= end {
			n, end = n+1, pl.End()
		}
	}
	return n
}

// MemorySlices is the number of memory slices that a GPU with these profiles has.
func MemorySlices(profiles []Profile) int {
	n := 0
	for _, p := range profiles {
		for _, pl := range p.Placements {
			n = max(n, pl.End())
		}
	}
	return n
}
