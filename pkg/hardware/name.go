package hardware

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// DeviceName is the whole GPU's name in a ResourceSlice, "gpu-0000-3b-00-0". Its
// counter set has the same name.
func (g GPU) DeviceName() string { return "gpu-" + g.PCI.label() }

// PartitionName is the name of a MIG slice in a ResourceSlice,
// "gpu-0000-3b-00-0-mig-1g-10gb-6", the start slot last.
func (g GPU) PartitionName(p mig.Profile, pl mig.Placement) string {
	return fmt.Sprintf("%s-mig-%s-%d", g.DeviceName(), mig.LabelName(p.Name), pl.Start)
}

// Device is what a published name stands for: a GPU, a slice of it, a NIC, or a GPU
// and a NIC together.
type Device struct {
	// GPU is the zero value where the device is only a NIC.
	GPU GPU
	// Partition is nil for the whole GPU.
	Partition *Partition
	// NIC is set for a NIC, where GPU is empty, and for a GPU and a NIC as a pair.
	NIC *NIC
}

// Partition is a MIG slice, which may not exist yet.
type Partition struct {
	Profile   mig.Profile
	Placement mig.Placement
}

// A name has the address of a GPU, of a NIC, or of both.
const addressPattern = `([0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-7])`

var (
	gpuNamePattern  = regexp.MustCompile(`^gpu-` + addressPattern + `(?:-mig-.+)?$`)
	nicNamePattern  = regexp.MustCompile(`^nic-` + addressPattern + `$`)
	pairNamePattern = regexp.MustCompile(`^gpu-` + addressPattern + `-nic-` + addressPattern + `$`)
)

// AddressOf reads the PCI address out of the name of a GPU, a MIG slice or a NIC,
// without asking whether the device is there. A pair has two (AddressesOf).
func AddressOf(deviceName string) (PCIAddress, error) {
	addrs, err := AddressesOf(deviceName)
	if err != nil {
		return "", err
	}
	if len(addrs) != 1 {
		return "", fmt.Errorf("device name %q stands for %d devices, want one", deviceName, len(addrs))
	}
	return addrs[0], nil
}

// AddressesOf reads the PCI addresses out of a device name, without asking whether
// the devices are there: one, or the GPU's and the NIC's of a pair.
func AddressesOf(deviceName string) ([]PCIAddress, error) {
	for _, pattern := range []*regexp.Regexp{gpuNamePattern, nicNamePattern, pairNamePattern} {
		m := pattern.FindStringSubmatch(deviceName)
		if m == nil {
			continue
		}
		var out []PCIAddress
		for _, label := range m[1:] {
			addr, err := addressOfLabel(label)
			if err != nil {
				return nil, fmt.Errorf("device name %q is not one of this driver: %w", deviceName, err)
			}
			out = append(out, addr)
		}
		return out, nil
	}
	return nil, fmt.Errorf("device name %q is not one of this driver", deviceName)
}

// addressOfLabel is the inverse of PCIAddress.label, for what looks like one.
func addressOfLabel(label string) (PCIAddress, error) {
	part := strings.Split(label, "-")
	addr, err := ParsePCIAddress(fmt.Sprintf("%s:%s:%s.%s", part[0], part[1], part[2], part[3]))
	if err != nil {
		return "", err
	}
	// One device has one name: locks and records are kept under the address.
	if addr.label() != label {
		return "", fmt.Errorf("its address is written %s", addr)
	}
	return addr, nil
}

// GPU finds a GPU by its PCI address.
func (n Node) GPU(addr PCIAddress) (GPU, bool) {
	i := slices.IndexFunc(n.GPUs, func(g GPU) bool { return g.PCI == addr })
	if i < 0 {
		return GPU{}, false
	}
	return n.GPUs[i], true
}

// NIC finds a NIC by its PCI address.
func (n Node) NIC(addr PCIAddress) (NIC, bool) {
	i := slices.IndexFunc(n.NICs, func(nic NIC) bool { return nic.PCI == addr })
	if i < 0 {
		return NIC{}, false
	}
	return n.NICs[i], true
}

// Device finds what a published name stands for. It fails for a name that is
// malformed or that this node does not have (any more). For a pair it asks whether
// both are there, not whether they are near.
func (n Node) Device(name string) (Device, error) {
	addrs, err := AddressesOf(name)
	if err != nil {
		return Device{}, err
	}
	withGPU := strings.HasPrefix(name, "gpu-")
	withNIC := !withGPU || len(addrs) == 2
	var d Device
	if withNIC {
		addr := addrs[len(addrs)-1]
		nic, ok := n.NIC(addr)
		if !ok {
			return Device{}, fmt.Errorf("device %s: no NIC at %s: %w", name, addr, ErrNotFound)
		}
		d.NIC = &nic
	}
	if !withGPU {
		return d, nil
	}
	gpu, ok := n.GPU(addrs[0])
	if !ok {
		return Device{}, fmt.Errorf("device %s: no GPU at %s: %w", name, addrs[0], ErrNotFound)
	}
	d.GPU = gpu
	if withNIC || name == gpu.DeviceName() {
		return d, nil
	}
	if d.Partition, ok = gpu.partition(name); !ok {
		return Device{}, fmt.Errorf("device %s: GPU %s offers no such MIG slice: %w", name, gpu.PCI, ErrNotFound)
	}
	return d, nil
}

// partition finds the slice that is published under a name.
func (g GPU) partition(name string) (*Partition, bool) {
	if g.MIG == nil {
		return nil, false
	}
	for _, p := range g.MIG.Profiles {
		for _, pl := range p.Placements {
			if g.PartitionName(p, pl) == name {
				return &Partition{Profile: p, Placement: pl}, true
			}
		}
	}
	return nil, false
}
