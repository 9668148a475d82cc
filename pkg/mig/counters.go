package mig

import (
	"fmt"
	"slices"
)

// Names of the counters of one GPU's counter set. Memory is counted in bytes,
// all others in pieces.
const (
	CounterMemory          = "memory"
	CounterMultiprocessors = "multiprocessors"
	CounterCopyEngines     = "copy-engines"
	CounterDecoders        = "decoders"
	CounterEncoders        = "encoders"
	CounterJPEGEngines     = "jpeg-engines"
	CounterOFAEngines      = "ofa-engines"
)

// MemorySliceCounter is the counter of memory slice i; it holds 1.
func MemorySliceCounter(i int) string { return fmt.Sprintf("memory-slice-%d", i) }

const mib = 1 << 20

// engineCounters lists the engine counters in the order they are considered.
var engineCounters = []struct {
	name string
	of   func(Engines) int
}{
	{CounterMultiprocessors, func(e Engines) int { return e.Multiprocessors }},
	{CounterCopyEngines, func(e Engines) int { return e.CopyEngines }},
	{CounterDecoders, func(e Engines) int { return e.Decoders }},
	{CounterEncoders, func(e Engines) int { return e.Encoders }},
	{CounterJPEGEngines, func(e Engines) int { return e.JPEGEngines }},
	{CounterOFAEngines, func(e Engines) int { return e.OFAEngines }},
}

// Counters is what the GPU has in all and what each placement takes of it, so
// that sums within the totals are exactly the packings that the GPU accepts.
type Counters struct {
	// Total is what a whole GPU holds, and takes when it is handed out whole.
	Total map[string]int64
	// limited has the profiles that NVML allows fewer times than they have
	// disjoint placements, by name.
	limited map[string]bool
}

// NewCounters derives the counters of a GPU from the profiles that NVML reports.
//
// An engine becomes a counter only where MaxInstances times its count stays
// within the maximum for every profile: the others are not shared out by plain
// sums. The memory total is that of the largest legal packing, since the sum of
// several instances may exceed the largest single one.
func NewCounters(profiles []Profile) Counters {
	c := Counters{Total: map[string]int64{}, limited: map[string]bool{}}
	for _, e := range engineCounters {
		if n, ok := engineTotal(profiles, e.of); ok {
			c.Total[e.name] = int64(n)
		}
	}
	for i := range MemorySlices(profiles) {
		c.Total[MemorySliceCounter(i)] = 1
	}
	if m := largestPackingMiB(profiles); m > 0 {
		c.Total[CounterMemory] = m * mib
	}
	for _, p := range profiles {
		if p.MaxInstances < p.Disjoint() {
			c.limited[p.Name] = true
			c.Total[limitCounter(p.Name)] = int64(p.MaxInstances)
		}
	}
	return c
}

// Of is what an instance of the profile at the placement takes.
func (c Counters) Of(p Profile, pl Placement) map[string]int64 {
	out := map[string]int64{}
	if p.MemoryMiB > 0 {
		out[CounterMemory] = p.MemoryMiB * mib
	}
	for _, e := range engineCounters {
		if _, counted := c.Total[e.name]; counted && e.of(p.Engines) > 0 {
			out[e.name] = int64(e.of(p.Engines))
		}
	}
	for i := pl.Start; i < pl.End(); i++ {
		out[MemorySliceCounter(i)] = 1
	}
	if c.limited[p.Name] {
		out[limitCounter(p.Name)] = 1
	}
	return out
}

func limitCounter(profile string) string { return "max-" + LabelName(profile) }

// engineTotal is the GPU's number of one engine, and whether it can be counted.
func engineTotal(profiles []Profile, of func(Engines) int) (int, bool) {
	total := 0
	for _, p := range profiles {
		total = max(total, of(p.Engines))
	}
	fits := !slices.ContainsFunc(profiles, func(p Profile) bool {
		return p.MaxInstances*of(p.Engines) > total
	})
	return total, total > 0 && fits
}

// largestPackingMiB is the most memory that instances side by side can hold. It
// walks the slices from the left: best[i] is the most in the first i slices.
func largestPackingMiB(profiles []Profile) int64 {
	n := MemorySlices(profiles)
	best := make([]int64, n+1)
	for end := 1; end <= n; end++ {
		best[end] = best[end-1]
		for _, p := range profiles {
			for _, pl := range p.Placements {
				if pl.End() == end {
					best[end] = max(best[end], best[pl.Start]+p.MemoryMiB)
				}
			}
		}
	}
	return best[n]
}
