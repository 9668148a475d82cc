package simhw

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// ManagementInterface is a network interface that belongs to no NIC. It carries the
// default route unless that is changed.
const ManagementInterface = "eth0"

// errNoNIC is why nothing was changed.
var errNoNIC = errors.New("there is no such NIC")

// NICState is one function of a network card.
type NICState struct {
	// NIC is what discovery finds while the function is there. The major of its
	// nodes is the one that the kernel has assigned; the file tree may have another.
	hardware.NIC
	// Card is the place of the card in the server's list. Function is 0 for the
	// physical function and counts virtual ones from 1.
	Card     int    `json:"card"`
	Function int    `json:"function"`
	Product  string `json:"product"`
	// Absent tells that the function is not there, Returns when it comes by itself.
	Absent  bool       `json:"absent,omitempty"`
	Returns *time.Time `json:"returns,omitempty"`
	// LinkDowned counts by RDMA device and port, "mlx5_0/1", how often the link has
	// gone down.
	LinkDowned map[string]int `json:"linkDowned,omitempty"`
}

// NetworkState is what the node's kernel does with its network interfaces.
type NetworkState struct {
	// DefaultRoutes are the interfaces that carry one, the best first.
	DefaultRoutes []string `json:"defaultRoutes"`
	// ExclusiveRDMA tells that each RDMA device is in one network namespace only
	// (ib_core's parameter netns_mode).
	ExclusiveRDMA bool `json:"exclusiveRDMA,omitempty"`
}

// PresentNICs is what discovery finds.
func (s Snapshot) PresentNICs() []hardware.NIC {
	var out []hardware.NIC
	for _, n := range s.NICs {
		if !n.Absent {
			out = append(out, n.NIC)
		}
	}
	return out
}

// freshNICs are the NICs after a boot.
func freshNICs(server catalog.Server, seed string) []NICState {
	var out []NICState
	for _, n := range server.FreshNICs(seed) {
		out = append(out, newNICState(server, n))
	}
	return out
}

// newNICState finds the card that a function is of.
func newNICState(server catalog.Server, n hardware.NIC) NICState {
	out := NICState{NIC: n}
	physical := n.PCI
	if n.Parent != "" {
		physical = n.Parent
	}
	out.Card = slices.IndexFunc(server.NICs, func(c catalog.ServerNIC) bool { return c.PCI == physical })
	for n.Parent != "" && (out.Function == 0 || catalog.VFAddress(physical, out.Function) != n.PCI) {
		out.Function++
	}
	out.Product = server.NICs[out.Card].Model.ProductName
	return out
}

func freshNetwork() NetworkState {
	return NetworkState{DefaultRoutes: []string{ManagementInterface}}
}

func (n NICState) clone() NICState {
	n.LinkDowned = maps.Clone(n.LinkDowned)
	n.RDMA = slices.Clone(n.RDMA)
	for i := range n.RDMA {
		n.RDMA[i].Ports = slices.Clone(n.RDMA[i].Ports)
	}
	return n
}

// findNIC takes an address, an interface or an RDMA device. The second result is the
// place of that device, which is 0 for the others.
func (s *Snapshot) findNIC(name string) (nic, device int, err error) {
	for i, n := range s.NICs {
		if string(n.PCI) == name || n.Interface == name && name != "" {
			return i, 0, nil
		}
		for j, d := range n.RDMA {
			if d.Name == name {
				return i, j, nil
			}
		}
	}
	if len(s.NICs) == 0 {
		return 0, 0, fmt.Errorf("NIC %q: %w; this server has none", name, errNoNIC)
	}
	var known []string
	for _, n := range s.NICs {
		known = append(known, string(n.PCI))
	}
	return 0, 0, fmt.Errorf("NIC %q: %w; there are %s, which their interfaces and RDMA devices name, too", name, errNoNIC, strings.Join(known, ", "))
}

// changeNIC changes one NIC, or nothing if that fails.
func (e *Engine) changeNIC(name string, change func(s *Snapshot, n *NICState, device int) error) error {
	e.nics.Lock()
	defer e.nics.Unlock()
	do := func(s *Snapshot) error {
		nic, device, err := s.findNIC(name)
		if err != nil {
			return err
		}
		if err := change(s, &s.NICs[nic], device); err != nil {
			return fmt.Errorf("NIC %s: %w", name, err)
		}
		return nil
	}
	// Nobody else changes NICs now, so what a trial says still holds later.
	if err := do(e.moment().Snapshot.clone()); err != nil {
		return err
	}
	return e.commit(func(s *Snapshot) { _ = do(s) })
}

// RenameInterface gives a NIC's network interface another name, as udev or an
// administrator does; routes follow. An empty one is that of an interface which was
// moved into a network namespace, where the host does not see it.
func (e *Engine) RenameInterface(nic, name string) error {
	return e.changeNIC(nic, func(s *Snapshot, n *NICState, _ int) error {
		// The kernel's limit is IFNAMSIZ with the NUL that ends it.
		if len(name) > 15 || strings.ContainsAny(name, "/ :") || name == "." || name == ".." {
			return fmt.Errorf("%q is no name for an interface: at most 15 characters without slash, colon and space", name)
		}
		taken := name == ManagementInterface || slices.ContainsFunc(s.NICs, func(other NICState) bool {
			return other.Interface == name && other.PCI != n.PCI
		})
		if taken && name != "" {
			return fmt.Errorf("there is an interface %s already", name)
		}
		for i, route := range s.Network.DefaultRoutes {
			if route == n.Interface && name != "" {
				s.Network.DefaultRoutes[i] = name
			}
		}
		n.Interface = name
		return nil
	})
}

// SetDefaultRoutes lets these interfaces carry the default route, the best first;
// none means that there is no route.
func (e *Engine) SetDefaultRoutes(interfaces []string) error {
	e.nics.Lock()
	defer e.nics.Unlock()
	s := e.Snapshot()
	for _, name := range interfaces {
		known := slices.ContainsFunc(s.NICs, func(n NICState) bool { return n.Interface == name && name != "" })
		if name != ManagementInterface && !known {
			return fmt.Errorf("default route over %q: there is no such interface", name)
		}
	}
	return e.commit(func(s *Snapshot) { s.Network.DefaultRoutes = slices.Clone(interfaces) })
}

// SetExclusiveRDMA is the mode of ib_core (rdma system set netns).
func (e *Engine) SetExclusiveRDMA(exclusive bool) error {
	return e.commit(func(s *Snapshot) { s.Network.ExclusiveRDMA = exclusive })
}
