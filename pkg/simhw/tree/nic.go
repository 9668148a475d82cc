package tree

import (
	"fmt"
	"path/filepath"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// rdmaCMMinor is that of rdma_cm among the misc devices; real ones are dynamic.
const rdmaCMMinor = 59

// Versions of the kernel's interfaces (include/uapi/rdma: ib_user_verbs.h,
// ib_user_mad.h, rdma_user_cm.h, mlx5-abi.h).
const (
	verbsVersion      = "6"
	managementVersion = "5"
	connectionVersion = "4"
	cardVersion       = "1"
)

// mlx5Driver is where the kernel shows the cards' driver.
const mlx5Driver = "sys/bus/pci/drivers/mlx5_core"

// hasRDMA tells whether the kernel has loaded its RDMA modules.
func (t *Tree) hasRDMA() bool { return len(t.Server.NICs) > 0 }

// nics has what the kernel shows of the NICs that are there, and of RDMA as such.
func (t *Tree) nics(p plan, s simhw.Snapshot) {
	if !t.hasRDMA() {
		return
	}
	mode := "Y" // shared, the kernel's own choice
	if s.Network.ExclusiveRDMA {
		mode = "N"
	}
	p.files("sys/module/ib_core/parameters", map[string]string{"netns_mode": mode})
	p.files("sys/class/infiniband_verbs", map[string]string{"abi_version": verbsVersion})
	p.files("sys/class/infiniband_mad", map[string]string{"abi_version": managementVersion})
	const connections = "sys/devices/virtual/misc/rdma_cm"
	p.files(connections, map[string]string{"abi_version": connectionVersion, "dev": fmt.Sprintf("%d:%d", t.Majors.Misc, rdmaCMMinor)})
	p.linkTo("sys/class/misc/rdma_cm", connections)
	p.node("dev/infiniband/rdma_cm", t.Majors.Misc, rdmaCMMinor, deviceMode)
	for _, card := range t.Server.NICs {
		p.bridges(card.RootComplex, card.Bridges, card.NUMANode)
	}
	for _, n := range s.NICs {
		if !n.Absent {
			t.function(p, s, n)
		}
	}
}

// function is one PCI function of a card with what it provides.
func (t *Tree) function(p plan, s simhw.Snapshot, n simhw.NICState) {
	card := t.Server.NICs[n.Card]
	id := card.Model.PCI
	if n.Function > 0 {
		id.Device = card.Model.VirtualDevice
	}
	short := filepath.Join(p.bridges(card.RootComplex, card.Bridges, card.NUMANode), string(n.PCI))
	dir := filepath.Join("sys", short)
	p.pciDevice(short, string(n.PCI), map[string]string{
		"vendor":           fmt.Sprintf("0x%04x", id.Vendor),
		"device":           fmt.Sprintf("0x%04x", id.Device),
		"subsystem_vendor": fmt.Sprintf("0x%04x", id.SubsystemVendor),
		"subsystem_device": fmt.Sprintf("0x%04x", id.SubsystemDevice),
		"class":            fmt.Sprintf("0x%06x", id.Class),
		"revision":         "0x00",
		"modalias": fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", id.Vendor, id.Device, id.SubsystemVendor, id.SubsystemDevice,
			id.Class>>16, id.Class>>8&0xff, id.Class&0xff),
		"numa_node":          fmt.Sprint(card.NUMANode),
		"local_cpulist":      t.localCPUs(card.NUMANode),
		"current_link_speed": card.Model.PCIeSpeed,
		"max_link_speed":     card.Model.PCIeSpeed,
		"current_link_width": fmt.Sprint(card.Model.PCIeWidth),
		"max_link_width":     fmt.Sprint(card.Model.PCIeWidth),
	})
	p.linkTo(filepath.Join(dir, "driver"), mlx5Driver)
	p.linkTo(filepath.Join(mlx5Driver, string(n.PCI)), dir)
	image := n.RDMA[0].NodeGUID // the card's
	if n.Function == 0 {
		t.virtualFunctions(p, s, n, dir)
	} else {
		physical := filepath.Join(filepath.Dir(dir), string(n.Parent))
		p.linkTo(filepath.Join(dir, "physfn"), physical)
		for _, other := range s.NICs {
			if other.PCI == n.Parent {
				image = other.RDMA[0].NodeGUID
			}
		}
	}
	if n.Interface != "" {
		p.nicInterface(dir, n)
	}
	for i := range n.RDMA {
		t.rdmaDevice(p, dir, n, i, image)
	}
}

// virtualFunctions are what a physical function shows of them.
func (t *Tree) virtualFunctions(p plan, s simhw.Snapshot, n simhw.NICState, dir string) {
	vfs := s.VFs(n.PCI)
	p.files(dir, map[string]string{
		"sriov_totalvfs": fmt.Sprint(t.Server.NICs[n.Card].Model.MaxVFs), "sriov_numvfs": fmt.Sprint(len(vfs)),
	})
	for _, vf := range vfs {
		if !vf.Absent {
			p.linkTo(filepath.Join(dir, fmt.Sprintf("virtfn%d", vf.Function-1)), filepath.Join(filepath.Dir(dir), string(vf.PCI)))
		}
	}
}
