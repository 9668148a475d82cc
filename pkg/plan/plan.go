// Package plan turns a claim, its configuration and the hardware into a Plan:
// ordered steps as plain data that can be stored, carried out and undone.
package plan

import (
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Claim names the ResourceClaim that a plan serves.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Plan is all that preparing one claim takes.
type Plan struct {
	Claim   Claim    `json:"claim"`
	Devices []Device `json:"devices"`
	Steps   []Step   `json:"steps,omitempty"`
}

// Device is one allocated device of the claim: a GPU, a MIG slice, a NIC, or a pair
// of a GPU and a NIC, which has GPU and NIC and is held like both of them.
type Device struct {
	// Result is the index in the claim's status.allocation.devices.results; it
	// is part of the CDI device's name.
	Result int `json:"result"`
	// Request is the request, or "request/subrequest", that was satisfied.
	Request string `json:"request"`
	// Pool and Name are the device's in its ResourceSlice.
	Pool string `json:"pool"`
	Name string `json:"name"`
	// GPU is empty for a NIC.
	GPU hardware.GPUID `json:"gpu,omitzero"`
	// Admin marks admin access: it shares the device with whoever holds it and
	// changes nothing.
	Admin bool `json:"admin,omitempty"`
	// MIG is set for a MIG slice.
	MIG *Slice `json:"mig,omitempty"`
	// ShareID tells the shares of a device apart that several claims have a part of;
	// empty for a device that is given to one.
	ShareID string `json:"shareID,omitempty"`
	// NIC is set for a NIC and for a pair.
	NIC *NIC `json:"nic,omitempty"`
}

// NIC is the NIC that a device stands for or contains. Nothing is changed of it.
type NIC struct {
	PCI hardware.PCIAddress `json:"pci"`
	// Shared marks a part of the NIC's bandwidth; several claims can hold such parts.
	Shared bool `json:"shared,omitempty"`
	// ISSM adds the nodes of subnet management, NCCL what NCCL needs.
	ISSM bool `json:"issm,omitempty"`
	NCCL bool `json:"nccl,omitempty"`
}

// Slice is the MIG slice that a device stands for.
type Slice struct {
	// Profile is NVML's enum value, ProfileID the ID that goes with it.
	Profile   int           `json:"profile"`
	ProfileID int           `json:"profileID"`
	Name      string        `json:"name"`
	Placement mig.Placement `json:"placement"`
	// Existing is set for a slice that somebody had made before and that is handed
	// out as it is: it is neither made nor removed.
	Existing *hardware.Instance `json:"existing,omitempty"`
}

// StepKind is what a step does.
type StepKind string

// Each kind names what it does, what it returns and how it is undone.
const (
	// EnableMIG switches MIG mode on. It is not undone: whoever wants the whole
	// GPU next switches it off, and until then the mode does not matter.
	EnableMIG StepKind = "EnableMIG"
	// DisableMIG switches MIG mode off for a whole GPU. Not undone either.
	DisableMIG StepKind = "DisableMIG"
	// CreateGPUInstance makes Slice; the result has its GPUInstance. Undone by
	// destroying the instance at this placement.
	CreateGPUInstance StepKind = "CreateGPUInstance"
	// CreateComputeInstance makes a compute instance in the GPU instance of the
	// same Device; the result has ComputeInstance and UUID. It goes with its GPU
	// instance.
	CreateComputeInstance StepKind = "CreateComputeInstance"
	// SetComputeMode sets Step.ComputeMode. Undone by setting Step.Prior again.
	SetComputeMode StepKind = "SetComputeMode"
)

// Step is one change of hardware.
type Step struct {
	Kind StepKind `json:"kind"`
	// Device is the index in Plan.Devices.
	Device int `json:"device"`
	// Slices is the number of compute slices that CreateComputeInstance takes; 0
	// means all that the GPU instance has.
	Slices int `json:"slices,omitempty"`
	// ComputeMode is what SetComputeMode sets, Prior what it found. Both are
	// known before the step begins, so that a crash in its middle loses nothing.
	ComputeMode hardware.ComputeMode `json:"computeMode,omitempty"`
	Prior       hardware.ComputeMode `json:"prior,omitempty"`
}

// Result is what a step has done.
type Result struct {
	// GPUInstance is NVML's id of the instance made.
	GPUInstance int `json:"gpuInstance,omitempty"`
	// ComputeInstance is NVML's id of the compute instance made.
	ComputeInstance int `json:"computeInstance,omitempty"`
	// UUID is the MIG device's, "MIG-...".
	UUID string `json:"uuid,omitempty"`
}

// String names a claim for people and logs.
func (c Claim) String() string { return c.Namespace + "/" + c.Name }
