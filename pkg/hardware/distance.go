package hardware

import "slices"

// Switch is the address of the upstream port of the nearest PCIe switch above the
// device, the root port where there is no switch, and empty only where no bridge is
// known. Devices with the same Switch are at distance PIX.
//
// A switch is two bridges in a row, its upstream port and one of its downstream
// ports, each a function of its own in the device's path in sysfs (PCI Express Base
// Specification, 1.3.3 "Switch").
func (p Place) Switch() PCIAddress {
	if len(p.Bridges) == 0 {
		return ""
	}
	return p.Bridges[max(0, len(p.Bridges)-2)]
}

// DistanceBetween is how far apart two devices are, from their places alone. NVML
// answers that for two GPUs only, sysfs for every device. It is symmetric, and
// DistancePIX for two functions of one card.
func DistanceBetween(a, b Place) Distance {
	shared := 0
	for shared < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[shared] == b.Bridges[shared] {
		shared++
	}
	// From the last common bridge, which is the upstream port of a switch that both
	// are at, there is at most one downstream port on either side.
	below := max(len(a.Bridges), len(b.Bridges)) - shared
	switch {
	case a.PCI == b.PCI || shared > 0 && below <= 1:
		return DistancePIX
	case shared > 0:
		return DistancePXB
	case a.PCIeRoot != "" && a.PCIeRoot == b.PCIeRoot:
		return DistancePHB
	case a.NUMANode != nil && b.NUMANode != nil && *a.NUMANode == *b.NUMANode:
		return DistanceNODE
	default:
		return DistanceSYS
	}
}

// distances are all there are, from near to far.
var distances = []Distance{DistancePIX, DistancePXB, DistancePHB, DistanceNODE, DistanceSYS}

// Within tells whether d is as near as the limit or nearer. What is no distance is
// within none.
func (d Distance) Within(limit Distance) bool {
	i := slices.Index(distances, d)
	return i >= 0 && i <= slices.Index(distances, limit)
}
