package profile

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// match is what devices can have in common: in which attribute, which kinds of devices
// have that, and what people call these.
type match struct {
	attribute resourceapi.QualifiedName
	kinds     []string
	about     string
}

func matchOf(m v1alpha1.ClaimMatch) match {
	if m == v1alpha1.MatchParentGPU {
		return match{attribute: attributeParentUUID, kinds: []string{kindMIG}, about: "MIG slices"}
	}
	return match{attribute: attributeNVLinkDomain, kinds: []string{kindGPU, kindPair}, about: "whole GPUs"}
}

// constraints are those that the profile asks for.
func (r *renderer) constraints(spec v1alpha1.ClaimProfileSpec, blocks []block, at *field.Path) []resourceapi.DeviceConstraint {
	var out []resourceapi.DeviceConstraint
	for i, c := range spec.Constraints {
		at, match := at.Child("constraints").Index(i), matchOf(c.Match)
		attribute := resourceapi.FullyQualifiedName(r.driver + "/" + string(match.attribute))
		constraint := resourceapi.DeviceConstraint{MatchAttribute: &attribute}
		for j, b := range blocks {
			if len(c.Groups) > 0 && !slices.Contains(c.Groups, b.group.Name) || b.refused() {
				continue
			}
			names, all := b.having(match.kinds)
			if !all {
				r.refusals.add(ReasonDoesNotApply, at.Child("match"), "%s is about %s, and group %s is or may be something else; name the groups that it is for", c.Match, match.about, b.group.Name)
				continue
			}
			constraint.Requests = append(constraint.Requests, names...)
			if c.Match == v1alpha1.MatchParentGPU {
				blocks[j].parent = i + 1
			}
		}
		out = append(out, constraint)
		if c.Match == v1alpha1.MatchNVLinkDomain && !slices.ContainsFunc(r.inventory.Nodes, Node.nvlink) {
			r.note("%s: no GPU of the cluster says which NVLink domain it is in, so the claim fits nowhere now", at)
		}
	}
	return out
}

// having are the names of the requests for devices of such kinds; all is false if there
// are none, or there are alternatives of another kind. The NICs of pairs are left out.
func (b block) having(kinds []string) (names []string, all bool) {
	for _, a := range b.asks {
		if slices.ContainsFunc(a.options, func(o option) bool { return slices.Contains(kinds, o.kind) }) {
			names = append(names, a.name)
		} else if b.group.GPUWithNIC == nil {
			return nil, false
		}
		if slices.ContainsFunc(a.options, func(o option) bool { return o.kind != kindNIC && !slices.Contains(kinds, o.kind) }) {
			return nil, false
		}
	}
	return names, len(names) > 0
}

func (n Node) nvlink() bool {
	return slices.ContainsFunc(n.GPUs, func(s Stock[GPU]) bool { return s.Kind.NVLink }) ||
		slices.ContainsFunc(n.Pairs, func(s Stock[Pair]) bool { return s.Kind.GPU.NVLink })
}

// configured are the kinds of devices that a kind of configuration is for.
func configured(kind string) []string {
	switch kind {
	case v1alpha1.GPUConfigKind:
		return []string{kindGPU, kindPair}
	case v1alpha1.MIGConfigKind:
		return []string{kindMIG}
	case v1alpha1.RDMAConfigKind:
		return []string{kindNIC, kindPair}
	}
	return nil
}

// configuring are the names of the block's requests that may be given devices which the
// kind of configuration is for.
func (b block) configuring(kind string) []string {
	var names []string
	for _, a := range b.asks {
		if slices.ContainsFunc(a.options, func(o option) bool { return slices.Contains(configured(kind), o.kind) }) {
			names = append(names, a.name)
		}
	}
	return names
}
