package mig

import (
	"cmp"
	"slices"
)

// Starts is the profile's placements in the order in which they are best handed
// out on an empty GPU: the one that makes the fewest other placements impossible
// first, ties to the higher start. For the common geometry with seven compute
// and eight memory slices that is also the order of NVIDIA's own driver.
// Variants with media engines do not count as losses: each GPU has one only.
func Starts(p Profile, profiles []Profile) []Placement {
	out := slices.Clone(p.Placements)
	lost := map[Placement]int{}
	for _, pl := range out {
		lost[pl] = destroyed(pl, profiles)
	}
	slices.SortFunc(out, func(a, b Placement) int {
		return cmp.Or(cmp.Compare(lost[a], lost[b]), cmp.Compare(b.Start, a.Start))
	})
	return out
}

// destroyed counts the legal placements that overlap pl.
func destroyed(pl Placement, profiles []Profile) int {
	n := 0
	for _, p := range profiles {
		if p.Media() {
			continue
		}
		for _, other := range p.Placements {
			if pl.Overlaps(other) {
				n++
			}
		}
	}
	return n
}

// Group orders profiles by size for publishing: 0 is the smallest without media
// engines, 1 the smallest with them, 2 twice as large, 3 everything larger.
// Profiles of one group go into the same ResourceSlices.
func Group(p Profile, profiles []Profile) int {
	unit := 0
	for _, q := range profiles {
		if s := q.size(); unit == 0 || s < unit {
			unit = s
		}
	}
	switch size := p.size(); {
	case size <= unit && !p.Media():
		return 0
	case size <= unit:
		return 1
	case size <= 2*unit:
		return 2
	default:
		return 3
	}
}

// Groups is the number of values that Group returns.
const Groups = 4

// size is the number of memory slices of one instance; NVML reports the same
// for all placements of a profile.
func (p Profile) size() int {
	if len(p.Placements) == 0 {
		return 0
	}
	return p.Placements[0].Size
}
