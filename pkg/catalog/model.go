package catalog

import (
	"errors"
	"fmt"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// Model is one GPU model.
type Model struct {
	Name string
	// ProductName is NVML's, for example "NVIDIA H100 80GB HBM3".
	ProductName string
	// Brand is the product line, for example "Nvidia".
	Brand string
	// Architecture is for example "Hopper" or "Ada Lovelace".
	Architecture string
	// ComputeCapability is CUDA's, "major.minor".
	ComputeCapability string
	// Multiprocessors is the number of SMs of the whole GPU.
	Multiprocessors int
	// MemoryMiB is the total memory that NVML reports, in MiB.
	MemoryMiB int64
	PCI       PCIIdentity
	// ECC tells whether error correction of the memory is on.
	ECC bool
	// GPM tells whether NVML's GPU performance monitoring works: on Hopper and
	// newer (nvml.h, nvmlGpmQueryDeviceSupport).
	GPM bool
	// NVLink tells whether the GPU has NVLink ports, connected or not.
	NVLink bool
	// PowerLimitWatts is the power limit as delivered. Of this and the next three
	// 0 is not known: NVML then answers NOT_SUPPORTED.
	PowerLimitWatts int
	// MaxSMClockMHz and MaxMemoryClockMHz are the highest clocks.
	MaxSMClockMHz, MaxMemoryClockMHz int
	// BAR1MiB is the size of the window into the GPU's memory, in MiB.
	BAR1MiB int64
	// MIG is nil for a model that cannot be partitioned.
	MIG *MIG
}

// PCIIdentity is what the PCI configuration space says.
type PCIIdentity struct {
	Vendor, Device, SubsystemVendor, SubsystemDevice uint16
	// Class is base class, subclass and interface, for example 0x030200.
	Class uint32
}

// MIG is what a model that can be partitioned offers.
type MIG struct {
	// ModeNeedsReset tells whether a change of MIG mode waits for a GPU reset.
	ModeNeedsReset bool
	// MemorySlices and ComputeSlices are the GPU's, 8 and 7 on most models.
	MemorySlices, ComputeSlices int
	// Profiles are the GPU-instance profiles in the order of NVML's enum.
	Profiles []mig.Profile
	// ComputeProfiles are the compute instances that fit into an instance of a
	// profile, by the profile's enum, in the order of NVML's enum.
	ComputeProfiles map[int][]ComputeProfile
	// Conflicts are the profiles, by enum, that cannot exist beside one of the
	// key's enum although their placements do not overlap and their maxima are
	// not reached. Each pair is in both directions, in ascending order.
	Conflicts map[int][]int
}

// ComputeProfile is one kind of compute instance within one kind of GPU instance.
type ComputeProfile struct {
	// Enum is NVML's compute-instance profile enum value, ID the one it reports.
	Enum, ID int
	// Slices is the number of compute slices.
	Slices int
	// MaxInstances is how many an empty GPU instance takes.
	MaxInstances int
	// Multiprocessors is the number of SMs of one instance.
	Multiprocessors int
}

// modelFile is the form of models/*.yaml.
type modelFile struct {
	Name              string            `json:"name"`
	Sources           map[string]string `json:"sources"`
	ProductName       fact[string]      `json:"productName"`
	Brand             fact[string]      `json:"brand"`
	Architecture      fact[string]      `json:"architecture"`
	ComputeCapability fact[string]      `json:"computeCapability"`
	Multiprocessors   fact[int]         `json:"multiprocessors"`
	MemoryMiB         fact[int64]       `json:"memoryMiB"`
	PCI               pciFile           `json:"pci"`
	ECC               fact[bool]        `json:"ecc"`
	GPM               fact[bool]        `json:"gpm"`
	NVLink            fact[bool]        `json:"nvlink"`
	PowerLimitWatts   fact[int]         `json:"powerLimitWatts"`
	MaxSMClockMHz     fact[int]         `json:"maxSMClockMHz"`
	MaxMemoryClockMHz fact[int]         `json:"maxMemoryClockMHz"`
	BAR1MiB           fact[int64]       `json:"bar1MiB"`
	MIG               *migFile          `json:"mig,omitempty"`
}

type pciFile struct {
	Vendor          fact[uint16] `json:"vendor"`
	Device          fact[uint16] `json:"device"`
	SubsystemVendor fact[uint16] `json:"subsystemVendor"`
	SubsystemDevice fact[uint16] `json:"subsystemDevice"`
	Class           fact[uint32] `json:"class"`
}

// LoadModel reads a model. It fails if the catalog does not know the model or a
// value of it that the simulation needs: then the error is ErrNotKnown and names
// every such value.
func LoadModel(name string) (Model, []Warning, error) {
	var f modelFile
	if err := load("models", name, &f); err != nil {
		return Model{}, nil, err
	}
	r, err := newReader("model "+name, f.Sources)
	if err != nil {
		return Model{}, nil, err
	}
	if f.Name != name {
		r.fail("name", "is %q, want the file's name %q", f.Name, name)
	}
	m := Model{
		Name:              f.Name,
		ProductName:       need(r, "productName", f.ProductName),
		Brand:             need(r, "brand", f.Brand),
		Architecture:      need(r, "architecture", f.Architecture),
		ComputeCapability: need(r, "computeCapability", f.ComputeCapability),
		Multiprocessors:   need(r, "multiprocessors", f.Multiprocessors),
		MemoryMiB:         need(r, "memoryMiB", f.MemoryMiB),
		PCI:               f.PCI.read(r),
		ECC:               need(r, "ecc", f.ECC),
		GPM:               need(r, "gpm", f.GPM),
		NVLink:            need(r, "nvlink", f.NVLink),
		PowerLimitWatts:   maybe(r, "powerLimitWatts", f.PowerLimitWatts),
		MaxSMClockMHz:     maybe(r, "maxSMClockMHz", f.MaxSMClockMHz),
		MaxMemoryClockMHz: maybe(r, "maxMemoryClockMHz", f.MaxMemoryClockMHz),
		BAR1MiB:           maybe(r, "bar1MiB", f.BAR1MiB),
	}
	if f.MIG != nil {
		m.MIG = f.MIG.read(r, m.MemoryMiB, m.NVLink)
	}
	r.finish()
	if err := errors.Join(r.errs...); err != nil {
		return Model{}, nil, fmt.Errorf("load model %s: %w", name, err)
	}
	return m, r.warnings, nil
}
