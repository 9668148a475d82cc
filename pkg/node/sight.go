package node

import (
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// sight is what is known of a prepared device's surroundings.
type sight struct {
	// nic is nil for a device without one, and nicDistance that of a pair to its GPU.
	nic         *hardware.NIC
	nicDistance hardware.Distance
	// distances are those to the claim's other devices, by their names.
	distances map[string]hardware.Distance
}

// sights are those of all devices of a claim. A pair sits where its GPU does.
func (m *model) sights(p plan.Plan) []sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]sight, len(p.Devices))
	places := make([]hardware.Place, len(p.Devices))
	for i, d := range p.Devices {
		if d.NIC != nil {
			if n, ok := m.node.NIC(d.NIC.PCI); ok {
				out[i].nic, places[i] = &n, n.Place()
			}
		}
		if g, ok := m.node.GPU(d.GPU.PCI); ok {
			if out[i].nic != nil {
				out[i].nicDistance = hardware.DistanceBetween(g.Place(), places[i])
			}
			places[i] = g.Place()
		}
	}
	for i := range out {
		for j, other := range p.Devices {
			if i == j || places[i].PCI == "" || places[j].PCI == "" || places[i].PCI == places[j].PCI {
				continue
			}
			if out[i].distances == nil {
				out[i].distances = map[string]hardware.Distance{}
			}
			out[i].distances[other.Name] = hardware.DistanceBetween(places[i], places[j])
		}
	}
	return out
}
