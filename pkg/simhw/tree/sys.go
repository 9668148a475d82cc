package tree

import (
	"fmt"
	"path/filepath"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// links is where the kernel has a link for each PCI device.
const links = "sys/bus/pci/devices"

// sys has what the kernel shows of a PCI device, as far as somebody reads it:
// /sys/bus/pci/devices/<address> is a link into /sys/devices, whose path names
// the root complex and all bridges. The driver has no part in it.
func (t *Tree) sys(p plan, s simhw.Snapshot) {
	for i, g := range t.Server.GPUs {
		dir := filepath.Join("devices", g.RootComplex)
		for _, bridge := range g.Bridges {
			dir = filepath.Join(dir, string(bridge))
			p.pciDevice(dir, string(bridge), map[string]string{"class": "0x060400", "numa_node": fmt.Sprint(g.NUMANode)})
		}
		if s.GPUs[i].Absent {
			continue
		}
		id := g.Model.PCI
		p.pciDevice(filepath.Join(dir, string(g.PCI)), string(g.PCI), map[string]string{
			"vendor":           fmt.Sprintf("0x%04x", id.Vendor),
			"device":           fmt.Sprintf("0x%04x", id.Device),
			"subsystem_vendor": fmt.Sprintf("0x%04x", id.SubsystemVendor),
			"subsystem_device": fmt.Sprintf("0x%04x", id.SubsystemDevice),
			"class":            fmt.Sprintf("0x%06x", id.Class),
			"numa_node":        fmt.Sprint(g.NUMANode),
		})
	}
}

func (p plan) pciDevice(dir, address string, attributes map[string]string) {
	for name, value := range attributes {
		p.file(filepath.Join("sys", dir, name), value+"\n")
	}
	p.link(filepath.Join(links, address), filepath.Join("../../..", dir))
}
