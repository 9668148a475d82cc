package tree

import (
	"fmt"
	"path/filepath"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// links is where the kernel has a link for each PCI device.
const links = "sys/bus/pci/devices"

// sys has what the kernel shows of a PCI device, as far as somebody reads it:
// /sys/bus/pci/devices/<address> is a link into /sys/devices, whose path names
// the root complex and all bridges. The driver has no part in it.
func (t *Tree) sys(p plan, s simhw.Snapshot) {
	for i, g := range t.Server.GPUs {
		dir := p.bridges(g.RootComplex, g.Bridges, g.NUMANode)
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
	p.files(filepath.Join("sys", dir), attributes)
	p.linkTo(filepath.Join(links, address), filepath.Join("sys", dir))
}

// bridges makes those above a device and returns the directory that it is in, below
// /sys.
func (p plan) bridges(root string, bridges []hardware.PCIAddress, numaNode int) string {
	dir := filepath.Join("devices", root)
	for _, bridge := range bridges {
		dir = filepath.Join(dir, string(bridge))
		p.pciDevice(dir, string(bridge), map[string]string{"class": "0x060400", "numa_node": fmt.Sprint(numaNode)})
	}
	return dir
}
