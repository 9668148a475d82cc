package simhw

import (
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Snapshot is the whole state of an engine at one time, and the form in which it
// is kept on disk and listed.
type Snapshot struct {
	// Server and Seed are what the state belongs to.
	Server string `json:"server"`
	Seed   string `json:"seed"`
	// Boot counts the node's boots, from 1.
	Boot int `json:"boot"`
	// BootID is what the kernel shows in /proc/sys/kernel/random/boot_id.
	BootID string `json:"bootID"`
	// NextSerial numbers the next instance; serials are never used twice.
	NextSerial uint64 `json:"nextSerial"`
	// Driver is loaded anew with the daemon.
	Driver DriverState `json:"driver"`
	// GPUs has one entry for each slot of the server, with or without a GPU.
	GPUs []GPUState `json:"gpus"`
	// NICs are the functions of the network cards, in ascending order of their
	// address; virtual ones come and go.
	NICs    []NICState   `json:"nics,omitempty"`
	Network NetworkState `json:"network"`
}

// GPUState is one slot and its GPU.
type GPUState struct {
	// Index is the slot's, the place in Snapshot.GPUs. NVML counts only the GPUs
	// that are there and that its client sees.
	Index int `json:"index"`
	// Minor is N of /dev/nvidiaN; a slot keeps it while it is empty.
	Minor   int                 `json:"minor"`
	PCI     hardware.PCIAddress `json:"pci"`
	UUID    string              `json:"uuid"`
	Product string              `json:"product"`
	// Generation counts the GPUs that have been in the slot, from 0.
	Generation int `json:"generation,omitempty"`
	// Absent tells that the slot is empty.
	Absent bool `json:"absent,omitempty"`
	// Lost tells that the GPU has fallen off the bus; a reboot brings it back.
	Lost       bool `json:"lost,omitempty"`
	MIGCapable bool `json:"migCapable"`
	// MIGEnabled is the current mode.
	MIGEnabled bool `json:"migEnabled"`
	// MIGPending tells that the opposite of the current mode waits for a reset.
	MIGPending  bool             `json:"migPending,omitempty"`
	ComputeMode nvml.ComputeMode `json:"computeMode"`
	Health      Health           `json:"health,omitzero"`
	Settings    Settings         `json:"settings,omitzero"`
	// Instances are in ascending order of their ID.
	Instances []InstanceState `json:"instances,omitempty"`
	// Processes are in ascending order of their ID.
	Processes []Process `json:"processes,omitempty"`
}

// Gone tells that calls about the GPU find nothing that answers.
func (g GPUState) Gone() bool { return g.Absent || g.Lost }

// InstanceState is one GPU instance.
type InstanceState struct {
	// ID is NVML's, unique on the GPU while the instance lives.
	ID int `json:"id"`
	// Serial tells the instance from all others that ever were.
	Serial      uint64        `json:"serial"`
	ProfileEnum int           `json:"profileEnum"`
	ProfileID   int           `json:"profileID"`
	Profile     string        `json:"profile"`
	Placement   mig.Placement `json:"placement"`
	// Compute are in ascending order of their ID.
	Compute []ComputeState `json:"compute,omitempty"`
}

// ComputeState is one compute instance, and so one MIG device.
type ComputeState struct {
	ID          int    `json:"id"`
	Serial      uint64 `json:"serial"`
	ProfileEnum int    `json:"profileEnum"`
	ProfileID   int    `json:"profileID"`
	// Placement is in compute slices of the GPU instance.
	Placement mig.Placement `json:"placement"`
	// UUID is the MIG device's, "MIG-...", new at every creation.
	UUID string `json:"uuid"`
}

func (s *Snapshot) clone() *Snapshot {
	out := *s
	out.NICs = slices.Clone(s.NICs)
	for i := range out.NICs {
		out.NICs[i] = s.NICs[i].clone()
	}
	out.Network.DefaultRoutes = slices.Clone(s.Network.DefaultRoutes)
	out.GPUs = slices.Clone(s.GPUs)
	for i := range out.GPUs {
		out.GPUs[i].Processes = slices.Clone(s.GPUs[i].Processes)
		out.GPUs[i].Instances = slices.Clone(s.GPUs[i].Instances)
		for j := range out.GPUs[i].Instances {
			out.GPUs[i].Instances[j].Compute = slices.Clone(s.GPUs[i].Instances[j].Compute)
		}
	}
	return &out
}

// serial takes the next number.
func (s *Snapshot) serial() uint64 {
	n := s.NextSerial
	s.NextSerial++
	return n
}

// Instance finds a GPU instance by its ID.
func (g *GPUState) Instance(id int) (*InstanceState, bool) {
	i := slices.IndexFunc(g.Instances, func(in InstanceState) bool { return in.ID == id })
	if i < 0 {
		return nil, false
	}
	return &g.Instances[i], true
}

// bySerial finds a GPU instance that handles name.
func (g *GPUState) bySerial(serial uint64) (*InstanceState, bool) {
	i := slices.IndexFunc(g.Instances, func(in InstanceState) bool { return in.Serial == serial })
	if i < 0 {
		return nil, false
	}
	return &g.Instances[i], true
}

// ComputeInstance finds a compute instance by its ID.
func (in *InstanceState) ComputeInstance(id int) (*ComputeState, bool) {
	i := slices.IndexFunc(in.Compute, func(c ComputeState) bool { return c.ID == id })
	if i < 0 {
		return nil, false
	}
	return &in.Compute[i], true
}

// MIGDevice is a compute instance with the instances around it.
type MIGDevice struct {
	GPU      int
	Instance InstanceState
	Compute  ComputeState
}

// MIGDevices are all of a GPU's, in the order of GPU-instance and compute-instance
// IDs. GPU instances without compute instances do not appear.
func (s Snapshot) MIGDevices(gpu int) []MIGDevice {
	var out []MIGDevice
	for _, in := range s.GPUs[gpu].Instances {
		for _, c := range in.Compute {
			out = append(out, MIGDevice{GPU: gpu, Instance: in, Compute: c})
		}
	}
	return out
}
