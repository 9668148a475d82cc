package catalog

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// InfiniBandMajor is the major of all device nodes below /dev/infiniband but
// rdma_cm, which is a misc device (Documentation/admin-guide/devices.txt).
const InfiniBandMajor = 231

// The first minors of the kinds of nodes (devices.txt; drivers/infiniband/core,
// IB_UMAD_MINOR_BASE, IB_ISSM_MINOR_BASE, IB_UVERBS_BASE_MINOR).
const (
	firstManagementMinor = 0
	firstSubnetMinor     = 64
	firstVerbsMinor      = 192
)

// vfOffset is how far from a physical function's routing ID its first virtual
// function is; the others follow one by one.
const vfOffset = 1

// FreshNICs are the functions of the server's network cards right after a boot, as a
// perfect discovery finds them: in ascending order of their address, with GUIDs made
// from the seed. Their nodes' major is the one that the kernel has assigned.
func (s Server) FreshNICs(seed string) []hardware.NIC {
	var out []hardware.NIC
	for i, n := range s.NICs {
		out = append(out, n.Function(seed, i, 0, out))
	}
	// The driver makes virtual functions only when it is told to, after all
	// physical ones.
	for i, n := range s.NICs {
		for vf := 1; vf <= n.VFs; vf++ {
			out = append(out, n.Function(seed, i, vf, out))
		}
	}
	SortNICs(out)
	return out
}

// SortNICs brings NICs into the order of hardware.Node.
func SortNICs(nics []hardware.NIC) {
	slices.SortFunc(nics, func(a, b hardware.NIC) int { return strings.Compare(string(a.PCI), string(b.PCI)) })
}

// Function is one function of the card, which is the server's with that index: the
// physical one for vf 0, else the virtual one with that number, from 1. It gets the
// lowest names and numbers that none of those has that are taken, as in the kernel.
func (n ServerNIC) Function(seed string, index, vf int, taken []hardware.NIC) hardware.NIC {
	out := hardware.NIC{
		PCI: n.PCI, Interface: interfaceName(n.PCI, n.Model.LinkLayer, vf),
		PCIeRoot: n.RootComplex, NUMANear: slices.Clone(n.NUMANear), Bridges: slices.Clone(n.Bridges),
	}
	device := n.Model.PCI.Device
	if vf > 0 {
		out.PCI, out.Parent, device = VFAddress(n.PCI, vf), n.PCI, n.Model.VirtualDevice
	}
	if n.NUMANode >= 0 {
		numa := n.NUMANode
		out.NUMANode = &numa
	}
	free := newNumbers(taken)
	out.RDMA = append(out.RDMA, n.trafficDevice(guids(seed, index, vf), device, free))
	if n.Model.Planes > 0 && vf == 0 {
		out.RDMA = append(out.RDMA, n.subnetDevice(guids(seed, index, vf), free))
	}
	return out
}

// trafficDevice is the RDMA device that programs use.
func (n ServerNIC) trafficDevice(mac [6]byte, device uint16, free numbers) hardware.RDMADevice {
	d := n.device(mac, free.name("mlx5_%d"), device)
	port := hardware.RDMAPort{
		Number: 1, LinkLayer: n.Model.LinkLayer, State: hardware.PortActive, PhysicalState: "LinkUp",
		BitsPerSecond: int64(n.Model.GigabitsPerSecond) * 1e9, GUID: nodeGUID(mac), HasSubnetManager: true,
	}
	if n.Model.LinkLayer == hardware.LinkLayerEthernet {
		port.GUID, port.HasSubnetManager = interfaceID(mac), false
	}
	d.Ports = []hardware.RDMAPort{port}
	d.Verbs = free.node("uverbs", firstVerbsMinor)
	management := free.node("umad", firstManagementMinor)
	d.Management = []hardware.DeviceNode{management}
	// Where planes are managed one by one, the whole link has no subnet management.
	if n.Model.LinkLayer == hardware.LinkLayerInfiniBand && n.Model.Planes == 0 {
		d.Subnet = []hardware.DeviceNode{subnetNode(management)}
	}
	return d
}

// subnetDevice is the one that only manages the planes of a link; it cannot be
// opened for traffic (Linux, RDMA_DEVICE_TYPE_SMI in include/rdma/ib_verbs.h).
func (n ServerNIC) subnetDevice(mac [6]byte, free numbers) hardware.RDMADevice {
	d := n.device(mac, free.name("smi%d"), n.Model.PCI.Device)
	for plane := 1; plane <= n.Model.Planes; plane++ {
		d.Ports = append(d.Ports, hardware.RDMAPort{
			Number: plane, LinkLayer: n.Model.LinkLayer, State: hardware.PortActive, PhysicalState: "LinkUp",
			BitsPerSecond: int64(n.Model.GigabitsPerSecond/n.Model.Planes) * 1e9, GUID: nodeGUID(mac), HasSubnetManager: true,
		})
		management := free.node("umad", firstManagementMinor)
		d.Management = append(d.Management, management)
		d.Subnet = append(d.Subnet, subnetNode(management))
	}
	return d
}

// device has what all RDMA devices of the card have. The driver names the type after
// the PCI device ID (drivers/infiniband/hw/mlx5/main.c, hca_type_show).
func (n ServerNIC) device(mac [6]byte, name string, device uint16) hardware.RDMADevice {
	return hardware.RDMADevice{
		Name: name, NodeGUID: nodeGUID(mac), FirmwareVersion: n.Model.FirmwareVersion,
		BoardID: n.Model.BoardID, HCAType: fmt.Sprintf("MT%d", device),
	}
}

// subnetNode has the number of the port's management node.
func subnetNode(management hardware.DeviceNode) hardware.DeviceNode {
	n := management.Minor - firstManagementMinor
	return hardware.DeviceNode{Path: fmt.Sprintf("/dev/infiniband/issm%d", n), Major: InfiniBandMajor, Minor: firstSubnetMinor + n}
}

// numbers gives out what is not taken.
type numbers map[string]bool

func newNumbers(taken []hardware.NIC) numbers {
	out := numbers{"smi0": true} // the first that was seen is smi1 (Mellanox/rdmamap#17)
	for _, n := range taken {
		for _, d := range n.RDMA {
			out[d.Name], out[d.Verbs.Path] = true, true
			for _, m := range d.Management {
				out[m.Path] = true
			}
		}
	}
	return out
}

func (f numbers) lowest(format string) (int, string) {
	for n := 0; ; n++ {
		if name := fmt.Sprintf(format, n); !f[name] {
			f[name] = true
			return n, name
		}
	}
}

func (f numbers) name(format string) string {
	_, name := f.lowest(format)
	return name
}

func (f numbers) node(kind string, firstMinor int64) hardware.DeviceNode {
	n, path := f.lowest("/dev/infiniband/" + kind + "%d")
	return hardware.DeviceNode{Path: path, Major: InfiniBandMajor, Minor: firstMinor + int64(n)}
}

// VFAddress is where the virtual function with a number, from 1, is.
func VFAddress(pf hardware.PCIAddress, vf int) hardware.PCIAddress {
	var domain, bus, device, function int
	if _, err := fmt.Sscanf(string(pf), "%x:%x:%x.%x", &domain, &bus, &device, &function); err != nil {
		panic(err) // addresses are checked when the catalog is read
	}
	id := bus<<8 | device<<3 | function
	id += vfOffset + vf - 1
	return hardware.PCIAddress(fmt.Sprintf("%04x:%02x:%02x.%x", domain, id>>8, id>>3&0x1f, id&7))
}

// interfaceName is systemd's for the function: its place in the PCI tree
// (systemd.net-naming-scheme).
func interfaceName(pf hardware.PCIAddress, layer string, vf int) string {
	var domain, bus, device, function int
	if _, err := fmt.Sscanf(string(pf), "%x:%x:%x.%x", &domain, &bus, &device, &function); err != nil {
		panic(err) // addresses are checked when the catalog is read
	}
	name := "p" + strconv.Itoa(bus) + "s" + strconv.Itoa(device)
	if domain > 0 {
		name = "P" + strconv.Itoa(domain) + name
	}
	switch {
	case layer == hardware.LinkLayerInfiniBand && vf == 0:
		return "ib" + name
	case layer == hardware.LinkLayerInfiniBand:
		return fmt.Sprintf("ib%sv%d", name, vf-1)
	case vf == 0:
		return fmt.Sprintf("en%sf%dnp0", name, function)
	}
	return fmt.Sprintf("en%sf%dv%d", name, function, vf-1)
}

// guids is the hardware address that a function's GUIDs are made from, below one of
// the vendor's prefixes.
func guids(seed string, index, vf int) [6]byte {
	h := sha256.Sum256(fmt.Appendf(nil, "nic %d function %d of %s", index, vf, seed))
	return [6]byte{0x0c, 0x42, 0xa1, h[0], h[1], h[2]}
}

// nodeGUID is how these cards make a GUID of a hardware address, in the kernel's
// form, "0c42:a103:00c6:cf52".
func nodeGUID(mac [6]byte) string {
	return fmt.Sprintf("%02x%02x:%02x03:00%02x:%02x%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5])
}

// interfaceID is the lower half of an Ethernet port's first GID (RFC 4291, modified
// EUI-64).
func interfaceID(mac [6]byte) string {
	return fmt.Sprintf("%02x%02x:%02xff:fe%02x:%02x%02x", mac[0]^2, mac[1], mac[2], mac[3], mac[4], mac[5])
}
