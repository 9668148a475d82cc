package profile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// choose turns a MIG slice that is asked for by what it needs into the profiles that it
// may have: for each model of GPU the smallest that is enough, all in ascending order.
// Variants, as those with media engines, are taken only where they are asked for by
// name.
func (r *renderer) choose(m member, at *field.Path) []string {
	byModel := map[string][]Slice{}
	for _, n := range r.inventory.Nodes {
		for _, s := range n.Slices {
			plain := !strings.ContainsAny(s.Kind.Profile, "+-")
			if plain && m.isModel(s.Kind.GPU) && computeSlices(s.Kind.Profile) >= m.computeSlices {
				byModel[s.Kind.Model] = append(byModel[s.Kind.Model], s.Kind)
			}
		}
	}
	chosen := map[string]Slice{}
	var largest Slice
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		all := byModel[model]
		slices.SortFunc(all, compareSlices)
		for _, s := range all {
			if s.Memory > largest.Memory {
				largest = s
			}
			if atLeast(s.Memory, m.memory) {
				chosen[s.Profile] = s
				break
			}
			if most := nominal(s.Profile); m.memory.CmpInt64(most) <= 0 {
				r.refusals.add(ReasonMarketingSize, at.Child("memory"),
					"%s is more than a %s of %s has, which is %s in spite of its name; ask for %s to be given one, or by profile for another",
					m.memory, s.Profile, model, size(s.Memory), size(s.Memory))
				return nil
			}
		}
	}
	if len(chosen) == 0 {
		r.noSlice(m, largest, at)
		return nil
	}
	return slices.SortedFunc(maps.Keys(chosen), func(a, b string) int { return compareSlices(chosen[a], chosen[b]) })
}

func (r *renderer) noSlice(m member, largest Slice, at *field.Path) {
	switch {
	case largest.Profile != "" && m.memory != nil:
		r.refusals.add(ReasonNoSuchSlice, at.Child("memory"), "no GPU that the profile is about offers a MIG slice with %s; the largest is %s of %s with %s",
			m.memory, largest.Profile, largest.Model, size(largest.Memory))
	case m.computeSlices > 0:
		r.refusals.add(ReasonNoSuchSlice, at.Child("computeSlices"), "no GPU that the profile is about offers a MIG slice with %d compute slices now", m.computeSlices)
	default:
		r.refusals.add(ReasonNoSuchSlice, at, "no GPU that the profile is about offers MIG slices now, so there is none to choose; profile asks for one by name")
	}
}

// compareSlices is how much of a GPU slices take: compute slices first, as in the order
// in which a node publishes them.
func compareSlices(a, b Slice) int {
	return cmp.Or(
		cmp.Compare(computeSlices(a.Profile), computeSlices(b.Profile)),
		cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.Profile, b.Profile),
	)
}

// checkMemory refuses a whole GPU's memory if it is what some GPU is named after and that
// one has a little less: an H100 with 80 GB has 79.6Gi, and would silently be left out.
func (r *renderer) checkMemory(m member, at *field.Path) {
	if m.memory == nil || m.kind == kindMIG {
		return
	}
	check := func(g GPU) bool {
		named := (g.Memory + gib - 1) / gib * gib
		if !m.isModel(g) || atLeast(g.Memory, m.memory) || m.memory.CmpInt64(named) > 0 {
			return true
		}
		r.refusals.add(ReasonMarketingSize, at.Child("memory"), "%s is a little more than %s has, which is %s; ask for %s to include it, or for more than %s to leave it out",
			m.memory, g.Model, size(g.Memory), size(g.Memory), size(named))
		return false
	}
	for _, n := range r.inventory.Nodes {
		for _, s := range n.GPUs {
			if !check(s.Kind) {
				return
			}
		}
		for _, s := range n.Pairs {
			if m.kind == kindPair && !check(s.Kind.GPU) {
				return
			}
		}
	}
}
