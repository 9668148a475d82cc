package hardware

import (
	"fmt"
	"regexp"
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

// Device is what a published name stands for.
type Device struct {
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

var deviceNamePattern = regexp.MustCompile(`^gpu-([0-9a-f]{4,8})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])(?:-mig-.+)?$`)

// AddressOf reads the PCI address out of a device name, without asking whether
// the device is there.
func AddressOf(deviceName string) (PCIAddress, error) {
	m := deviceNamePattern.FindStringSubmatch(deviceName)
	if m == nil {
		return "", fmt.Errorf("device name %q is not one of this driver", deviceName)
	}
	addr, err := ParsePCIAddress(fmt.Sprintf("%s:%s:%s.%s", m[1], m[2], m[3], m[4]))
	if err != nil {
		return "", fmt.Errorf("device name %q is not one of this driver: %w", deviceName, err)
	}
	// One device has one name: locks and records are kept under the address.
	if addr.label() != strings.Join(m[1:5], "-") {
		return "", fmt.Errorf("device name %q is not one of this driver: its address is written %s", deviceName, addr)
	}
	return addr, nil
}

// GPU finds a GPU by its PCI address.
func (n Node) GPU(addr PCIAddress) (GPU, bool) {
	for _, g := range n.GPUs {
		if g.PCI == addr {
			return g, true
		}
	}
	return GPU{}, false
}

// Device finds what a published name stands for. It fails for a name that is
// malformed or that this node does not have (any more).
func (n Node) Device(name string) (Device, error) {
	if strings.Contains(name, "nic-") {
		return n.stubDevice(name)
	}
	addr, err := AddressOf(name)
	if err != nil {
		return Device{}, err
	}
	g, ok := n.GPU(addr)
	if !ok {
		return Device{}, fmt.Errorf("device %s: no GPU at %s: %w", name, addr, ErrNotFound)
	}
	if name == g.DeviceName() {
		return Device{GPU: g}, nil
	}
	if g.MIG != nil {
		for _, p := range g.MIG.Profiles {
			for _, pl := range p.Placements {
				if g.PartitionName(p, pl) == name {
					return Device{GPU: g, Partition: &Partition{Profile: p, Placement: pl}}, nil
				}
			}
		}
	}
	return Device{}, fmt.Errorf("device %s: GPU %s offers no such MIG slice: %w", name, addr, ErrNotFound)
}
