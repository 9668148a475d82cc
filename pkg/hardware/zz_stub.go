package hardware

// Stand-ins for distances and names of NICs, which are written elsewhere: this file
// goes when the two come together.

import (
	"fmt"
	"slices"
	"strings"
)

// DistanceBetween is how far apart two devices are.
func DistanceBetween(a, b Place) Distance {
	shared := 0
	for shared < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[shared] == b.Bridges[shared] {
		shared++
	}
	switch {
	case shared > 0 && max(len(a.Bridges), len(b.Bridges))-shared <= 1:
		return DistancePIX
	case shared > 0:
		return DistancePXB
	case a.PCIeRoot != "" && a.PCIeRoot == b.PCIeRoot:
		return DistancePHB
	case a.NUMANode != nil && b.NUMANode != nil && *a.NUMANode >= 0 && *a.NUMANode == *b.NUMANode:
		return DistanceNODE
	}
	return DistanceSYS
}

// Switch is the upstream port of the nearest switch, or the root port.
func (p Place) Switch() PCIAddress {
	switch n := len(p.Bridges); {
	case n == 0:
		return ""
	case n < 3:
		return p.Bridges[0]
	default:
		return p.Bridges[n-2]
	}
}

// AddressesOf reads the one or two PCI addresses out of a device name.
func AddressesOf(deviceName string) ([]PCIAddress, error) {
	var out []PCIAddress
	first, second, pair := strings.Cut(deviceName, "-nic-")
	if pair {
		second = "gpu-" + second
	}
	if rest, ok := strings.CutPrefix(deviceName, "nic-"); ok {
		first, second, pair = "gpu-"+rest, "", false
	}
	for _, name := range []string{first, second} {
		if name == "" {
			continue
		}
		addr, err := AddressOf(name)
		if err != nil || ((pair || strings.HasPrefix(deviceName, "nic-")) && strings.Contains(name, "-mig-")) {
			return nil, fmt.Errorf("device name %q is not one of this driver", deviceName)
		}
		out = append(out, addr)
	}
	return out, nil
}

func (n Node) stubDevice(name string) (Device, error) {
	addrs, err := AddressesOf(name)
	if err != nil {
		return Device{}, err
	}
	if len(n.NICs) == 0 {
		return Device{}, fmt.Errorf("device name %q is not one of this driver", name)
	}
	last := addrs[len(addrs)-1]
	i := slices.IndexFunc(n.NICs, func(nic NIC) bool { return nic.PCI == last })
	if i < 0 {
		return Device{}, fmt.Errorf("device %s: no NIC at %s: %w", name, last, ErrNotFound)
	}
	d := Device{NIC: &n.NICs[i]}
	if len(addrs) == 2 {
		g, ok := n.GPU(addrs[0])
		if !ok {
			return Device{}, fmt.Errorf("device %s: no GPU at %s: %w", name, addrs[0], ErrNotFound)
		}
		d.GPU = g
	}
	return d, nil
}
