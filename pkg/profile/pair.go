package profile

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// maxMatched is how many pairs may be matched by constraints in a claim. The search for
// one pair too many takes 20 ms of a node with eight GPUs for four of them, a second and
// more for eight.
const maxMatched = 4

// pairsAreDevices tells whether such pairs are published as devices. Where no node has
// such a pair, what the others do decides.
func (r *renderer) pairsAreDevices(m member) bool {
	var device, apart, others bool
	for _, n := range r.inventory.Nodes {
		for _, p := range n.Pairs {
			device = device || p.Kind.Device && m.isPair(p.Kind)
			apart = apart || !p.Kind.Device && m.isPair(p.Kind)
			others = others || p.Kind.Device
		}
	}
	return device || others && !apart
}

// matchedPairs asks for each pair by a NIC and a GPU behind the same PCIe switch. NICs
// first: of what stands in the way there are mostly fewer.
func (r *renderer) matchedPairs(group string, m member, at *field.Path) ([]ask, []resourceapi.DeviceConstraint) {
	if r.matched += m.count; r.matched > maxMatched {
		r.refusals.add(ReasonSearchTooLong, at.Child("count"),
			"the cluster publishes no such pairs as devices, and %d that are matched by constraints can take the scheduler seconds for each node; at most %d may be in a profile. Switch on the chart's topology.pairs, or set wholeNode if they are all that a node has",
			r.matched, maxMatched)
		return nil, nil
	}
	attribute := resourceapi.FullyQualifiedName(r.driver + "/" + string(attributePCIeSwitch))
	nic, gpu := r.option(m.as(kindNIC)), r.option(m.as(kindGPU))
	nic.count, gpu.count = 1, 1
	nic.share = r.shared(nic.member)
	var asks []ask
	var constraints []resourceapi.DeviceConstraint
	for i := range m.count {
		names := []string{fmt.Sprintf("%s-%d-nic", group, i), fmt.Sprintf("%s-%d-gpu", group, i)}
		asks = append(asks, ask{name: names[0], options: []option{nic}}, ask{name: names[1], options: []option{gpu}})
		constraints = append(constraints, resourceapi.DeviceConstraint{Requests: names, MatchAttribute: &attribute})
	}
	if stock, _ := m.stock(r.inventory); stock < m.count {
		r.note("group %s: no node of the cluster has so many such GPUs with a NIC behind the same PCIe switch now", group)
	}
	return asks, constraints
}

// wholeNode asks for all GPUs of a node, and for all NICs near them: what is all of both
// needs no matching.
func (r *renderer) wholeNode(g v1alpha1.ClaimGroup, m member, at *field.Path) []ask {
	gpu, nic := m.as(kindGPU), m.as(kindNIC)
	nic.rail = true
	gpus, nics := r.shape(g, gpu, nic, at)
	gpu.count, nic.count = gpus, nics
	if m.kind == kindGPU {
		return []ask{{name: g.Name, options: []option{r.option(gpu)}}}
	}
	return []ask{
		{name: g.Name + "-gpu", options: []option{r.option(gpu)}},
		{name: g.Name + "-nic", options: []option{r.option(nic)}},
	}
}

// nodeShape is how many GPUs and NICs a node has that are asked for.
type nodeShape struct{ gpus, nics int }

// shape is how many GPUs and NICs a whole node has: the same on all that have most of
// these GPUs, since the scheduler would also take a part of a larger node.
func (r *renderer) shape(g v1alpha1.ClaimGroup, gpu, nic member, at *field.Path) (gpus, nics int) {
	var shapes []nodeShape
	withNIC := g.GPUWithNIC != nil
	for _, n := range r.inventory.Nodes {
		s := nodeShape{gpus: sum(n.GPUs, gpu.isGPU)}
		if withNIC {
			s.nics = sum(n.NICs, nic.isNIC)
		}
		if s.gpus > 0 && !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
	}
	if len(shapes) == 0 {
		r.note("group %s: no node of the cluster has such GPUs now", g.Name)
		if g.Count == nil {
			r.refusals.add(ReasonNotWholeNode, at.Child("count"), "no node of the cluster has such GPUs now, which would say how many there are; give a count")
		}
		return gpu.count, gpu.count
	}
	most := slices.MaxFunc(shapes, func(a, b nodeShape) int { return a.gpus - b.gpus })
	fewest := slices.MinFunc(shapes, func(a, b nodeShape) int { return a.gpus - b.gpus })
	switch {
	case g.Count == nil && fewest.gpus != most.gpus:
		r.refusals.add(ReasonNotWholeNode, at.Child("count"), "nodes have between %d and %d such GPUs; give a count, or narrow them down, for example by model", fewest.gpus, most.gpus)
	case g.Count != nil && gpu.count != most.gpus:
		r.refusals.add(ReasonNotWholeNode, at.Child("wholeNode"), "%d GPUs are not all of a node, since some have %d; narrow them down, for example by model, or leave wholeNode out", gpu.count, most.gpus)
	}
	r.checkNICs(shapes, most, withNIC, at)
	return most.gpus, most.nics
}

// checkNICs finds nodes that have as many GPUs and other numbers of NICs, or none.
func (r *renderer) checkNICs(shapes []nodeShape, most nodeShape, wanted bool, at *field.Path) {
	i := slices.IndexFunc(shapes, func(s nodeShape) bool { return s.gpus == most.gpus && s.nics != most.nics })
	if i >= 0 {
		r.refusals.add(ReasonNotWholeNode, at, "nodes with %d such GPUs have different numbers of NICs near them, for example %d and %d; narrow them down, for example by bandwidth or linkLayer", most.gpus, shapes[i].nics, most.nics)
	}
	if wanted && most.nics == 0 {
		r.refusals.add(ReasonNotWholeNode, at, "nodes with %d such GPUs have no such NIC near them", most.gpus)
	}
}
