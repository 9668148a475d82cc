package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// placed is a GPU instance at a placement, and what the scheduler counts for it.
type placed struct {
	profile mig.Profile
	at      mig.Placement
	takes   map[string]int64
}

func (p placed) String() string { return fmt.Sprintf("%s@%d", p.profile.Name, p.at.Start) }

// packer walks through everything that a GPU can hold, hardware and counters side
// by side.
type packer struct {
	t        *testing.T
	mig      *MIG
	total    map[string]int64
	all      []placed
	used     map[string]int64
	packings int
}

func newPacker(t *testing.T, m *MIG) *packer {
	c := mig.NewCounters(m.Profiles)
	p := &packer{t: t, mig: m, total: c.Total, used: map[string]int64{}}
	for _, profile := range m.Profiles {
		for _, at := range profile.Placements {
			p.all = append(p.all, placed{profile, at, c.Of(profile, at)})
		}
	}
	return p
}

// hardwareTakes is what the GPU answers, known without counters: the placement is
// free, the profile's maximum not reached, and nothing there that conflicts.
func (p *packer) hardwareTakes(packing []placed, next placed) bool {
	same := 0
	for _, in := range packing {
		if in.at.Overlaps(next.at) || slices.Contains(p.mig.Conflicts[in.profile.Enum], next.profile.Enum) {
			return false
		}
		if in.profile.Enum == next.profile.Enum {
			same++
		}
	}
	return same < next.profile.MaxInstances
}

// countersTake is what the scheduler answers.
func (p *packer) countersTake(next placed) bool {
	for name, n := range next.takes {
		if p.used[name]+n > p.total[name] {
			return false
		}
	}
	return true
}

// walk visits each packing once, since instances are added in one order only. That
// both agree on every step from every packing means that they agree on every set
// of instances: to either of them, a part of what fits also fits.
func (p *packer) walk(packing []placed, from int) {
	p.packings++
	for i, next := range p.all {
		hardware, counters := p.hardwareTakes(packing, next), p.countersTake(next)
		if hardware != counters {
			p.t.Fatalf("%v and then %v: counters say %v, hardware says %v", packing, next, counters, hardware)
		}
		if !hardware || i < from {
			continue
		}
		p.count(next, 1)
		p.walk(append(packing[:len(packing):len(packing)], next), i+1)
		p.count(next, -1)
	}
}

func (p *packer) count(in placed, times int64) {
	for name, n := range in.takes {
		p.used[name] += times * n
	}
}

// TestCountersAreTheHardwareMIGC07 goes through all packings of all models.
func TestCountersAreTheHardwareMIGC07(t *testing.T) {
	want := map[string]int{
		// As in package mig: two pairs, five ways each, and 4g; 40 1g and 10 2g can
		// be the one with media engines.
		"a30-24gb": 5*5 + 1 + 40 + 10,
		// Each quarter holds nothing or one of three variants, or each half one of
		// three: 19 ways a half, and two wholes. Then one +me in a quarter, or one
		// +me.all in a quarter or a half, beside which only -me fits.
		"rtx-pro-6000-blackwell": 19*19 + 2 + 4*4*19 + 4*2*5 + 2*5,
	}
	for name, m := range partitioned(t) {
		t.Run(name, func(t *testing.T) {
			p := newPacker(t, m.MIG)
			p.walk(nil, 0)
			packings, ok := want[name]
			if !ok {
				packings = 38*19 + 1 + 1596 // seven-by-eight, as in package mig
			}
			if p.packings != packings {
				t.Errorf("walked through %d packings, want %d", p.packings, packings)
			}
		})
	}
}
