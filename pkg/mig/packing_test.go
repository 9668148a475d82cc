package mig

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// instance is one GPU instance of a packing.
type instance struct {
	profile   Profile
	placement Placement
	takes     map[string]int64
}

func (in instance) String() string { return fmt.Sprintf("%s@%d", in.profile.Name, in.placement.Start) }

// instances is everything that could ever be made on the GPU.
func instances(profiles []Profile, c Counters) []instance {
	var out []instance
	for _, p := range profiles {
		for _, pl := range p.Placements {
			out = append(out, instance{p, pl, c.Of(p, pl)})
		}
	}
	return out
}

// hardwareTakes is what NVML would answer, known without any counter: an
// instance fits if none overlaps it, its profile's maximum is not reached, and,
// for a variant with media engines, no other one has them: a GPU has them once.
func hardwareTakes(packing []instance, next instance) bool {
	same := 0
	for _, in := range packing {
		if in.placement.Overlaps(next.placement) || in.profile.Media() && next.profile.Media() {
			return false
		}
		if in.profile.Name == next.profile.Name {
			same++
		}
	}
	return same < next.profile.MaxInstances
}

// countersTake is what the scheduler answers: sums within the totals.
func countersTake(c Counters, packing []instance, next instance) bool {
	for name, n := range next.takes {
		for _, in := range packing {
			n += in.takes[name]
		}
		if n > c.Total[name] {
			return false
		}
	}
	return true
}

// agree fails the test if counters and hardware differ on what may come next.
func agree(t rapid.TB, c Counters, packing, all []instance) {
	for _, next := range all {
		if got, want := countersTake(c, packing, next), hardwareTakes(packing, next); got != want {
			t.Fatalf("%v and then %v: counters say %v, hardware says %v", packing, next, got, want)
		}
	}
}

// TestCountersAreTheHardwareMIGC07 goes through every packing that a real GPU
// can reach, and asks of each whether counters and hardware agree on every
// instance that could come next.
func TestCountersAreTheHardwareMIGC07(t *testing.T) {
	tests := map[string]struct {
		profiles []Profile
		// packings is how many there are, so that a walk cut short is noticed.
		packings int
	}{
		// Without media engines each half fills on its own: 38 ways on the left
		// (two pairs of slices, six ways each, or 3g or 4g), 19 on the right (six
		// times three, or 3g), and 7g. They have 1596 1g instances among them,
		// each of which can be the one with media engines.
		"H100 80GB": {profiles: h100(), packings: 38*19 + 1 + 1596},
		"A100 40GB": {profiles: a100(), packings: 38*19 + 1 + 1596},
		// Two pairs, five ways each, and 4g; 40 1g and 10 2g to have the media
		// engines.
		"A30 24GB": {profiles: a30(), packings: 5*5 + 1 + 40 + 10},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewCounters(tc.profiles)
			all, packings := instances(tc.profiles, c), 0
			// Each packing once: instances are added in one order only.
			var walk func(packing []instance, from int)
			walk = func(packing []instance, from int) {
				packings++
				agree(t, c, packing, all)
				for i := from; i < len(all); i++ {
					if hardwareTakes(packing, all[i]) {
						walk(append(packing[:len(packing):len(packing)], all[i]), i+1)
					}
				}
			}
			walk(nil, 0)
			if packings != tc.packings {
				t.Errorf("walked through %d packings, want %d", packings, tc.packings)
			}
		})
	}
}

// TestCountersOfUnknownHardwareMIGC10 does the same for GPUs that nobody has
// heard of: any number of slices, any profiles, any maxima, any share of engines
// that a GPU can really hand out.
func TestCountersOfUnknownHardwareMIGC10(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profiles := unknownGPU(t)
		c := NewCounters(profiles)
		all := instances(profiles, c)
		var packing []instance
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(packing) > 0 && rapid.IntRange(0, 3).Draw(t, "free") == 0 {
				i := rapid.IntRange(0, len(packing)-1).Draw(t, "freed")
				packing = append(packing[:i:i], packing[i+1:]...)
			} else if next := rapid.SampledFrom(all).Draw(t, "taken"); hardwareTakes(packing, next) {
				packing = append(packing, next)
			}
			agree(t, c, packing, all)
		}
	})
}

// unknownGPU makes up a GPU. An instance has at most the share of each engine
// that its slices are of the GPU: more could not be handed out in full.
func unknownGPU(t *rapid.T) []Profile {
	n := rapid.IntRange(1, 16).Draw(t, "slices")
	total := Engines{
		Multiprocessors: rapid.IntRange(1, 200).Draw(t, "multiprocessors"),
		CopyEngines:     rapid.IntRange(0, 20).Draw(t, "copy engines"),
		Decoders:        rapid.IntRange(0, 8).Draw(t, "decoders"),
		OFAEngines:      rapid.IntRange(0, 1).Draw(t, "OFA engines"),
	}
	profiles := []Profile{{
		Enum: 100, Name: "whole", Slices: n, MaxInstances: 1, Engines: total,
		MemoryMiB: rapid.Int64Range(0, 1<<20).Draw(t, "memory"), Placements: run(n, 0),
	}}
	for i := range rapid.IntRange(0, 6).Draw(t, "profiles") {
		size := rapid.IntRange(1, n).Draw(t, "size")
		step := rapid.IntRange(1, size).Draw(t, "step")
		var starts []int
		for start := 0; start+size <= n; start += step {
			starts = append(starts, start)
		}
		p := Profile{
			Enum: 101 + i, Name: "profile-" + string(rune('a'+i)), Slices: size, Placements: run(size, starts...),
			MemoryMiB: rapid.Int64Range(0, 1<<20).Draw(t, "memory"),
			Engines: Engines{
				Multiprocessors: total.Multiprocessors * size / n,
				CopyEngines:     total.CopyEngines * size / n,
				Decoders:        total.Decoders * size / n,
				OFAEngines:      total.OFAEngines * size / n,
			},
		}
		p.MaxInstances = rapid.IntRange(1, p.Disjoint()).Draw(t, "maximum")
		profiles = append(profiles, p)
	}
	return profiles
}
