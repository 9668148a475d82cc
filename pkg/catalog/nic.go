package catalog

import (
	"errors"
	"fmt"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// NICModel is one network card, set up as an InfiniBand or as an Ethernet card.
type NICModel struct {
	Name string
	// ProductName is the family's, for example "ConnectX-7".
	ProductName string
	PCI         PCIIdentity
	// VirtualDevice is the PCI device ID of the card's virtual functions.
	VirtualDevice uint16
	// BoardID (PSID) and FirmwareVersion are as the kernel shows them.
	BoardID, FirmwareVersion string
	// LinkLayer is hardware.LinkLayerInfiniBand or hardware.LinkLayerEthernet.
	LinkLayer string
	// GigabitsPerSecond is the rate of the port.
	GigabitsPerSecond int
	// Planes is how many planes the link has that are managed one by one; 0 for
	// links that have none.
	Planes int
	// PCIeSpeed is in the kernel's words, "32.0 GT/s PCIe", PCIeWidth in lanes.
	PCIeSpeed string
	PCIeWidth int
	// MaxVFs is how many virtual functions there can be.
	MaxVFs int
}

// nicModelFile is the form of nics/*.yaml.
type nicModelFile struct {
	Name              string            `json:"name"`
	Sources           map[string]string `json:"sources"`
	ProductName       fact[string]      `json:"productName"`
	PCI               pciFile           `json:"pci"`
	VirtualDevice     fact[uint16]      `json:"virtualDevice"`
	BoardID           fact[string]      `json:"boardID"`
	FirmwareVersion   fact[string]      `json:"firmwareVersion"`
	LinkLayer         fact[string]      `json:"linkLayer"`
	GigabitsPerSecond fact[int]         `json:"gigabitsPerSecond"`
	Planes            fact[int]         `json:"planes"`
	PCIeSpeed         fact[string]      `json:"pcieSpeed"`
	PCIeWidth         fact[int]         `json:"pcieWidth"`
	MaxVFs            fact[int]         `json:"maxVFs"`
}

// NICModels are the names of the known network cards, sorted.
func NICModels() []string { return names("nics") }

// LoadNICModel reads a network card. It fails if the catalog does not know the card
// or a value of it that the simulation needs.
func LoadNICModel(name string) (NICModel, []Warning, error) {
	var f nicModelFile
	if err := load("nics", name, &f); err != nil {
		return NICModel{}, nil, err
	}
	r, err := newReader("network card "+name, f.Sources)
	if err != nil {
		return NICModel{}, nil, err
	}
	if f.Name != name {
		r.fail("name", "is %q, want the file's name %q", f.Name, name)
	}
	m := NICModel{
		Name:              f.Name,
		ProductName:       need(r, "productName", f.ProductName),
		PCI:               f.PCI.read(r),
		VirtualDevice:     need(r, "virtualDevice", f.VirtualDevice),
		BoardID:           need(r, "boardID", f.BoardID),
		FirmwareVersion:   need(r, "firmwareVersion", f.FirmwareVersion),
		LinkLayer:         need(r, "linkLayer", f.LinkLayer),
		GigabitsPerSecond: need(r, "gigabitsPerSecond", f.GigabitsPerSecond),
		Planes:            maybe(r, "planes", f.Planes),
		PCIeSpeed:         need(r, "pcieSpeed", f.PCIeSpeed),
		PCIeWidth:         need(r, "pcieWidth", f.PCIeWidth),
		MaxVFs:            need(r, "maxVFs", f.MaxVFs),
	}
	if m.LinkLayer != hardware.LinkLayerInfiniBand && m.LinkLayer != hardware.LinkLayerEthernet {
		r.fail("linkLayer", "is %q, want %s or %s", m.LinkLayer, hardware.LinkLayerInfiniBand, hardware.LinkLayerEthernet)
	}
	r.finish()
	if err := errors.Join(r.errs...); err != nil {
		return NICModel{}, nil, fmt.Errorf("load network card %s: %w", name, err)
	}
	return m, r.warnings, nil
}

// read is the identity that all devices have.
func (f pciFile) read(r *reader) PCIIdentity {
	return PCIIdentity{
		Vendor:          need(r, "pci.vendor", f.Vendor),
		Device:          need(r, "pci.device", f.Device),
		SubsystemVendor: need(r, "pci.subsystemVendor", f.SubsystemVendor),
		SubsystemDevice: need(r, "pci.subsystemDevice", f.SubsystemDevice),
		Class:           need(r, "pci.class", f.Class),
	}
}

// ServerNIC is one network card in its slot.
type ServerNIC struct {
	Model NICModel
	PCI   hardware.PCIAddress
	// NUMANode, RootComplex and Bridges are as those of a GPU. NUMANear are the other NUMA
	// nodes of its socket.
	NUMANode    int
	NUMANear    []int
	RootComplex string
	Bridges     []hardware.PCIAddress
	// VFs is how many virtual functions are made when the server boots.
	VFs int
}

type serverNICFile struct {
	Model       string   `json:"model"`
	PCI         string   `json:"pci"`
	NUMANode    *int     `json:"numaNode,omitempty"`
	RootComplex string   `json:"rootComplex"`
	Bridges     []string `json:"bridges"`
	VFs         int      `json:"vfs,omitempty"`
}

// readNICs reads the network cards and holds them against the rest of the server.
func (f serverFile) readNICs(r *reader, s *Server) {
	if len(f.NICs) == 0 {
		return
	}
	r.from("nicAddresses", f.NICAddresses)
	r.from("nicPlaces", f.NICPlaces)
	for i, n := range f.NICs {
		field := fmt.Sprintf("nics[%d]", i)
		nic := n.read(r, field)
		if _, ok := s.NUMACPUs[nic.NUMANode]; !ok && nic.NUMANode >= 0 {
			r.fail(field+".numaNode", "numaCPUs has no node %d", nic.NUMANode)
		}
		if i > 0 && s.NICs[i-1].PCI >= nic.PCI {
			r.fail(field+".pci", "must be in ascending order")
		}
		nic.NUMANear = s.Near(nic.NUMANode)
		s.NICs = append(s.NICs, nic)
	}
}

func (f serverNICFile) read(r *reader, field string) ServerNIC {
	m, warnings, err := LoadNICModel(f.Model)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	r.warnings = append(r.warnings, warnings...)
	n := ServerNIC{Model: m, PCI: address(r, field+".pci", f.PCI), NUMANode: -1, RootComplex: f.RootComplex, VFs: f.VFs}
	if f.NUMANode != nil {
		n.NUMANode = *f.NUMANode
	}
	if !rootComplexPattern.MatchString(f.RootComplex) {
		r.fail(field+".rootComplex", "is %q, want pciDDDD:BB", f.RootComplex)
	}
	for j, b := range f.Bridges {
		n.Bridges = append(n.Bridges, address(r, fmt.Sprintf("%s.bridges[%d]", field, j), b))
	}
	if n.VFs < 0 || n.VFs > m.MaxVFs {
		r.fail(field+".vfs", "is %d, the card can have 0 to %d", n.VFs, m.MaxVFs)
	}
	return n
}
