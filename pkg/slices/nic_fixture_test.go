package slices_test

import (
	"fmt"
	"testing"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// withNICs puts the eight GPUs of a dgx-h100 behind PCIe switches, so many of them
// and so many NICs on each; two more NICs, for storage, have root ports of their own.
func withNICs(t *testing.T, perSwitch int) hardware.Node {
	t.Helper()
	node := server(t, "dgx-h100")
	node.NICs = nil
	for i := range node.GPUs {
		group, k, numa := i/perSwitch, i%perSwitch, i/4
		at := place(group, numa)
		g := &node.GPUs[i]
		g.PCI = hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 0x10*(group+1)+8+k))
		g.NUMANode, g.PCIeRoot = at.NUMANode, at.PCIeRoot
		g.Bridges = append(at.Bridges, hardware.PCIAddress(fmt.Sprintf("0000:%02x:%02x.0", 0x10*(group+1)+2, 8+k)))
		n := infiniBand(i, fmt.Sprintf("0000:%02x:00.0", 0x10*(group+1)+3+k))
		n.NUMANode, n.PCIeRoot = at.NUMANode, at.PCIeRoot
		n.Bridges = append(at.Bridges, hardware.PCIAddress(fmt.Sprintf("0000:%02x:%02x.0", 0x10*(group+1)+2, k)))
		node.NICs = append(node.NICs, n)
	}
	for i := range 2 {
		n := infiniBand(8+i, fmt.Sprintf("0000:%02x:00.0", 0xa1+0x10*i))
		n.RDMA[0].Ports[0].LinkLayer = hardware.LinkLayerEthernet
		n.RDMA[0].Management = nil
		n.Interface = fmt.Sprintf("ens%dnp0", i+1)
		n.NUMANode, n.PCIeRoot = ptr(i), fmt.Sprintf("pci0000:%02x", 0xa0+0x10*i)
		n.Bridges = []hardware.PCIAddress{hardware.PCIAddress(fmt.Sprintf("0000:%02x:01.0", 0xa0+0x10*i))}
		node.NICs = append(node.NICs, n)
	}
	return node
}

// place is behind a switch: a root port and the switch's upstream port.
func place(group, numa int) hardware.Place {
	root := 0x10 * (group + 1)
	return hardware.Place{
		NUMANode: ptr(numa), PCIeRoot: fmt.Sprintf("pci0000:%02x", root),
		Bridges: []hardware.PCIAddress{
			hardware.PCIAddress(fmt.Sprintf("0000:%02x:01.0", root)), hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", root+1)),
		},
	}
}

// infiniBand is a NIC with one port at 400 Gb/s.
func infiniBand(i int, pci string) hardware.NIC {
	return hardware.NIC{PCI: hardware.PCIAddress(pci), RDMA: []hardware.RDMADevice{{
		Name: fmt.Sprintf("mlx5_%d", i), NodeGUID: fmt.Sprintf("0c42:a103:00c6:%04x", i),
		FirmwareVersion: "28.39.3004", BoardID: "MT_0000000838", HCAType: "MT4129",
		Ports: []hardware.RDMAPort{{
			Number: 1, LinkLayer: hardware.LinkLayerInfiniBand, State: hardware.PortActive, PhysicalState: "LinkUp",
			BitsPerSecond: 400e9, GUID: fmt.Sprintf("0c42:a103:00c6:%04x", i), HasSubnetManager: true,
		}},
		Verbs:      hardware.DeviceNode{Path: fmt.Sprintf("/dev/infiniband/uverbs%d", i), Major: 231, Minor: int64(192 + i)},
		Management: []hardware.DeviceNode{{Path: fmt.Sprintf("/dev/infiniband/umad%d", i), Major: 231, Minor: int64(i)}},
	}}}
}
