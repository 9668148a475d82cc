// Package hardware is the model of one node's devices as plain values. Nothing
// volatile is in it: two reads of unchanged hardware are equal.
package hardware

import (
	"cmp"
	"slices"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// Node is what one node has.
type Node struct {
	// DriverVersion is the NVIDIA driver's version as it names itself, for
	// example "580.95.05"; empty when unknown.
	DriverVersion string `json:"driverVersion,omitempty"`
	// CUDADriverVersion is 1000*major + 10*minor, for example 13000; 0 when unknown.
	CUDADriverVersion int `json:"cudaDriverVersion,omitempty"`
	// GPUs are in ascending order of their PCI address.
	GPUs []GPU `json:"gpus"`
	// NICs are in ascending order of their PCI address.
	NICs []NIC `json:"nics,omitempty"`
}

// Sort brings the GPUs and NICs into the order that the model promises.
func (n *Node) Sort() {
	slices.SortFunc(n.GPUs, func(a, b GPU) int { return cmp.Compare(a.PCI, b.PCI) })
	slices.SortFunc(n.NICs, func(a, b NIC) int { return cmp.Compare(a.PCI, b.PCI) })
}

// GPU is one physical GPU.
type GPU struct {
	// PCI is the GPU's identity.
	PCI PCIAddress `json:"pci"`
	// UUID is NVML's, "GPU-...". It is recorded and checked before every change.
	UUID string `json:"uuid"`
	// Minor is N of /dev/nvidiaN. It differs from NVML's index on some boards.
	Minor int `json:"minor"`
	// ProductName is NVML's name, for example "NVIDIA H100 80GB HBM3".
	ProductName string `json:"productName"`
	// Brand is the product line, for example "Nvidia"; empty when unknown.
	Brand string `json:"brand,omitempty"`
	// Architecture is for example "Hopper"; empty when unknown.
	Architecture string `json:"architecture,omitempty"`
	// CUDAComputeCapability is "major.minor", for example "9.0"; empty when unknown.
	CUDAComputeCapability string `json:"cudaComputeCapability,omitempty"`
	// MemoryMiB is the whole GPU's memory in MiB, as NVML reports the total.
	MemoryMiB int64 `json:"memoryMiB"`
	// PCIeRoot is the root complex, for example "pci0000:3a"; empty when unknown.
	PCIeRoot string `json:"pcieRoot,omitempty"`
	// NUMANode is nil when unknown: the kernel reports -1 on many machines.
	NUMANode *int `json:"numaNode,omitempty"`
	// NUMANear are the other NUMA nodes of the same socket that are nearest to NUMANode,
	// in ascending order, where a socket is divided into several; empty when unknown.
	NUMANear []int `json:"numaNear,omitempty"`
	// Bridges are the PCI bridges between the root complex and the GPU, the root port
	// first; empty when unknown.
	Bridges []PCIAddress `json:"bridges,omitempty"`
	// NVLink is the NVLink fabric that the GPU is part of; nil where there is none, and
	// while the GPU has not joined it, as right after a boot.
	NVLink *NVLinkFabric `json:"nvlink,omitempty"`
	// MIG is nil on a GPU that cannot be partitioned.
	MIG *MIG `json:"mig,omitempty"`
}

// NVLinkFabric says which GPUs reach each other through NVLink switches: those with
// the same cluster and the same clique. Where the cluster is empty, those of the same
// machine with the same clique.
type NVLinkFabric struct {
	// Cluster is the UUID of a fabric that can span machines (a GB200 NVL72 rack), in
	// lower case and without a prefix. It is empty for one that ends at this machine, of
	// which NVML reports a UUID of zeros (HGX H100 and B200): NVIDIA's own tools take
	// that for "no fabric with others" (go-nvlib, Device.IsFabricAttached).
	Cluster string `json:"cluster,omitempty"`
	// Clique numbers the parts into which the fabric is divided. The number alone says
	// nothing: all racks have the same ones (NVIDIA/nccl#1301).
	Clique uint32 `json:"clique"`
}

// ID is the pair by which a GPU is addressed and checked.
func (g GPU) ID() GPUID { return GPUID{PCI: g.PCI, UUID: g.UUID} }

// MIG is what a GPU that can be partitioned offers.
type MIG struct {
	// Enabled is the current mode.
	Enabled bool `json:"enabled"`
	// Switchable tells that the mode can be changed without a GPU reset. Where it
	// cannot be, the GPU offers what its current mode allows: slices or itself.
	Switchable bool `json:"switchable"`
	// Profiles are in the order of NVML's enum, each with its placements.
	Profiles []mig.Profile `json:"profiles"`
}

// Profile finds a profile by NVML's enum value.
func (m *MIG) Profile(enum int) (mig.Profile, bool) {
	i := slices.IndexFunc(m.Profiles, func(p mig.Profile) bool { return p.Enum == enum })
	if i < 0 {
		return mig.Profile{}, false
	}
	return m.Profiles[i], true
}

// GPUID addresses a GPU by its place and names the silicon expected there.
type GPUID struct {
	PCI  PCIAddress `json:"pci"`
	UUID string     `json:"uuid"`
}

// String is for logs and errors.
func (id GPUID) String() string { return string(id.PCI) + " (" + id.UUID + ")" }

// Instance is a GPU instance that exists now.
type Instance struct {
	// ID is NVML's GPU-instance id, unique on its GPU while the instance lives.
	ID int `json:"id"`
	// ProfileID is NVML's profile ID, as in mig.Profile.ID.
	ProfileID int           `json:"profileID"`
	Placement mig.Placement `json:"placement"`
	// Compute are the instance's compute instances; a GPU instance without any
	// has no MIG device handle and no UUID.
	Compute []ComputeInstance `json:"compute,omitempty"`
}

// ComputeInstance is the part of a GPU instance that CUDA runs on.
type ComputeInstance struct {
	// ID is NVML's compute-instance id, unique in its GPU instance.
	ID int `json:"id"`
	// UUID is that of the MIG device, "MIG-...", new at every creation.
	UUID string `json:"uuid"`
}

// ComputeMode is who may use a GPU at the same time.
type ComputeMode string

// The compute modes that NVML knows (nvml.h, nvmlComputeMode_t), without the
// deprecated per-thread one.
const (
	ComputeModeDefault          ComputeMode = "Default"
	ComputeModeExclusiveProcess ComputeMode = "ExclusiveProcess"
	ComputeModeProhibited       ComputeMode = "Prohibited"
)

// DeviceNode is a character device that a container needs.
type DeviceNode struct {
	// Path is the one that programs open, for example "/dev/nvidia0".
	Path  string `json:"path"`
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}
