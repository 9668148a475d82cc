package hardware

// NIC is one PCI function that can do RDMA: a physical function, or a virtual one
// that exists.
type NIC struct {
	// PCI is the NIC's identity: names of RDMA devices and interfaces change.
	PCI PCIAddress `json:"pci"`
	// RDMA are the RDMA devices of the function; there are several on some (an XDR
	// card has one that only manages the subnet). The first is the one for traffic.
	RDMA []RDMADevice `json:"rdma"`
	// Interface is the network interface, for example "ens1np0"; empty without one.
	Interface string `json:"interface,omitempty"`
	// Uplink tells that the host's default route leads over the NIC, or over a virtual
	// function of it.
	Uplink bool `json:"uplink,omitempty"`
	// Parent is the physical function of a virtual one, else empty.
	Parent PCIAddress `json:"parent,omitempty"`
	// PCIeRoot, NUMANode, NUMANear and Bridges are as those of a GPU.
	PCIeRoot string       `json:"pcieRoot,omitempty"`
	NUMANode *int         `json:"numaNode,omitempty"`
	NUMANear []int        `json:"numaNear,omitempty"`
	Bridges  []PCIAddress `json:"bridges,omitempty"`
}

// RDMADevice is one entry of /sys/class/infiniband.
type RDMADevice struct {
	// Name is the kernel's, for example "mlx5_0".
	Name string `json:"name"`
	// NodeGUID is as the kernel writes it, "0c42:a103:00c6:cf52".
	NodeGUID string `json:"nodeGUID,omitempty"`
	// FirmwareVersion, BoardID and HCAType are what the device says of itself,
	// "28.39.3004", "MT_0000000838" and "MT4129"; empty when unknown.
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	BoardID         string `json:"boardID,omitempty"`
	HCAType         string `json:"hcaType,omitempty"`
	// Ports are in ascending order of their number.
	Ports []RDMAPort `json:"ports"`
	// Verbs is the node that programs open for traffic; Management (umad) and
	// Subnet (issm) have one per port that has it.
	Verbs      DeviceNode   `json:"verbs"`
	Management []DeviceNode `json:"management,omitempty"`
	Subnet     []DeviceNode `json:"subnet,omitempty"`
}

// RDMAPort is one port of an RDMA device.
type RDMAPort struct {
	// Number counts from 1.
	Number int `json:"number"`
	// LinkLayer is LinkLayerInfiniBand or LinkLayerEthernet; the kernel says
	// "Unspecified" of some that are neither.
	LinkLayer string `json:"linkLayer"`
	// State is the logical state and PhysicalState the physical one, in the kernel's
	// words: "ACTIVE", "INIT", "DOWN"; "LinkUp", "Polling", "Disabled".
	State         string `json:"state"`
	PhysicalState string `json:"physicalState"`
	// BitsPerSecond is the rate of the link.
	BitsPerSecond int64 `json:"bitsPerSecond"`
	// GUID is the port's, the lower half of its first GID; empty when unknown, as on
	// Ethernet while the network interface is in another network namespace.
	GUID string `json:"guid,omitempty"`
	// HasSubnetManager tells whether a subnet manager has configured the port
	// (InfiniBand only: sm_lid is not 0).
	HasSubnetManager bool `json:"hasSubnetManager,omitempty"`
}

// Link layers, as the kernel names them.
const (
	LinkLayerInfiniBand = "InfiniBand"
	LinkLayerEthernet   = "Ethernet"
)

// PortActive is the State of a port that carries traffic.
const PortActive = "ACTIVE"

// String is for logs and errors.
func (n NIC) String() string { return string(n.PCI) }

// DeviceName is the NIC's name in a ResourceSlice, "nic-0000-5e-00-0".
func (n NIC) DeviceName() string { return "nic-" + n.PCI.label() }

// Bandwidth is the sum of the active ports' rates, in bit/s. The ports of a device
// that only manages the subnet are those of the first one once more.
func (n NIC) Bandwidth() int64 {
	var sum int64
	for i, d := range n.RDMA {
		if i > 0 && d.Verbs.Path == "" {
			continue
		}
		for _, p := range d.Ports {
			if p.State == PortActive {
				sum += p.BitsPerSecond
			}
		}
	}
	return sum
}

// Place is where a device sits in the machine.
type Place struct {
	PCI      PCIAddress
	PCIeRoot string
	NUMANode *int
	NUMANear []int
	// Bridges lead from the root port, the first, to the one above the device.
	Bridges []PCIAddress
}

// Place of a GPU.
func (g GPU) Place() Place {
	return Place{PCI: g.PCI, PCIeRoot: g.PCIeRoot, NUMANode: g.NUMANode, NUMANear: g.NUMANear, Bridges: g.Bridges}
}

// Place of a NIC.
func (n NIC) Place() Place {
	return Place{PCI: n.PCI, PCIeRoot: n.PCIeRoot, NUMANode: n.NUMANode, NUMANear: n.NUMANear, Bridges: n.Bridges}
}

// Distance is how far apart two devices are, as nvidia-smi topo names it.
type Distance string

// The distances, from near to far (nvidia-smi topo -m, legend).
const (
	// DistancePIX: at most one PCIe bridge between them.
	DistancePIX Distance = "PIX"
	// DistancePXB: several PCIe bridges, but not the host bridge.
	DistancePXB Distance = "PXB"
	// DistancePHB: a PCIe host bridge, typically the CPU.
	DistancePHB Distance = "PHB"
	// DistanceNODE: between host bridges of one NUMA node.
	DistanceNODE Distance = "NODE"
	// DistanceSYS: between NUMA nodes, or nobody knows.
	DistanceSYS Distance = "SYS"
)
