package hardware

import (
	"cmp"
	"slices"
)

// Rails are the rails of a node's NICs: NICs with the same number on different
// nodes are cabled to the same switches of the network, so that traffic between
// them takes the shortest way. A NIC that is missing in the result has none.
//
// What configured says of any NIC of the node holds, and it then says all. Else the
// compute NICs are numbered from 0 in the order of their PCIe switches' addresses,
// then of their own, as on servers whose boards are cabled in this order. Compute
// NICs are the physical functions nearest to a GPU: those that are at a GPU's switch;
// on a node that has none, those behind a switch above; and where there are none of
// these either, those that share a root with a GPU. The others, as those for storage,
// have no rail. A virtual function has that of its physical one, whether or not that
// is among the node's NICs.
func Rails(node Node, configured map[PCIAddress]int) map[PCIAddress]int {
	rails := map[PCIAddress]int{}
	for _, n := range node.NICs {
		rail, ok := configured[n.PCI]
		if !ok {
			rail, ok = configured[n.physical()]
		}
		if ok {
			rails[n.PCI] = rail
		}
	}
	if len(rails) > 0 {
		return rails
	}
	order := computeFunctions(node)
	for _, n := range node.NICs {
		if i := slices.Index(order, n.physical()); i >= 0 {
			rails[n.PCI] = i
		}
	}
	return rails
}

// computeFunctions are the addresses of the physical functions that have a rail.
func computeFunctions(node Node) []PCIAddress {
	for _, limit := range []Distance{DistancePIX, DistancePXB, DistancePHB} {
		near := slices.DeleteFunc(slices.Clone(node.NICs), func(n NIC) bool {
			return !slices.ContainsFunc(node.GPUs, func(g GPU) bool {
				return DistanceBetween(g.Place(), n.Place()).Within(limit)
			})
		})
		if len(near) == 0 {
			continue
		}
		slices.SortFunc(near, func(a, b NIC) int {
			return cmp.Or(
				cmp.Compare(a.Place().Switch(), b.Place().Switch()),
				cmp.Compare(a.physical(), b.physical()))
		})
		var order []PCIAddress
		for _, n := range near {
			order = append(order, n.physical())
		}
		return slices.Compact(order)
	}
	return nil
}

// physical is the address of the NIC's physical function, which may be itself.
func (n NIC) physical() PCIAddress { return cmp.Or(n.Parent, n.PCI) }
