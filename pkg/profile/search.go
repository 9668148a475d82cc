package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the scheduler's allocator takes of a processor for one node with eight GPUs, all
// their MIG slices and ten NICs, in microseconds, as measured (test/bench): for each
// request or alternative, since it asks every device whether it is selected, and for each
// step of its search, which looks at the devices that come after the last one. Those that
// are selected, but whose counters others have used up, take longest.
const (
	microsPerRequest = 2500
	microsPerStep    = 30
	microsPerDevice  = 4.5
	// maxMicros leaves room below the 50 ms that a claim may cost, in 99 of 100 cases.
	maxMicros = 35_000
)

// A node is taken for one with eight GPUs, and where a cluster has no such device at
// all, with two NICs more than GPUs and with seven slices on each.
const (
	usualGPUs   = 8
	usualNICs   = 10
	usualSlices = 7 * usualGPUs
)

// arrange puts the requests in the order that is searched quickest. A search that ends
// because one request finds nothing has tried every way to meet those before it. So what
// is larger comes first: where it is free, so is what is smaller, and there are fewer ways
// to place it. Of NICs, which share nothing with the others, those with the fewest ways
// come first, and all stand where the estimate is lowest.
func arrange(blocks []block) []block {
	var gpus, nics []block
	for _, b := range blocks {
		if b.size() > 0 {
			gpus = append(gpus, b)
		} else {
			nics = append(nics, b)
		}
	}
	slices.SortStableFunc(gpus, func(a, b block) int {
		return cmp.Or(-cmp.Compare(a.size(), b.size()), cmp.Compare(a.ways(), b.ways()))
	})
	slices.SortStableFunc(nics, func(a, b block) int { return cmp.Compare(a.ways(), b.ways()) })
	best, least := blocks, math.Inf(1)
	for i := range len(gpus) + 1 {
		order := slices.Concat(gpus[:i], nics, gpus[i:])
		if n := longest(order); n < least {
			best, least = order, n
		}
	}
	return best
}

// ways is how many there are to meet the block's requests on a free node.
func (b block) ways() float64 {
	product := 1.0
	for _, a := range b.asks {
		sum := 0.0
		for _, o := range a.options {
			supply, _ := o.supply()
			sum += choose(max(supply, o.count), o.count)
		}
		product *= sum
	}
	return product
}

// size is that of the largest device of the block.
func (b block) size() int {
	most := 0
	for _, a := range b.asks {
		most = max(most, a.size())
	}
	return most
}

func (a ask) size() int {
	most := 0
	for _, o := range a.options {
		most = max(most, o.weight())
	}
	return most
}

// supply is how many such devices can be had of a node, and how many there are.
func (o option) supply() (n, devices int) {
	if o.stock > 0 {
		return o.stock, o.devices
	}
	switch o.kind {
	case kindNIC:
		return usualNICs, usualNICs
	case kindMIG:
		return usualSlices, usualSlices
	}
	return usualGPUs, usualGPUs
}

// weight is the share of a GPU that a device takes, in compute slices; a whole GPU has 7.
func (o option) weight() int {
	switch o.kind {
	case kindNIC:
		return 0
	case kindMIG:
		return computeSlices(o.profile)
	}
	return 7
}

// micros is what a step costs that looks for such a device in vain.
func (o option) micros() float64 {
	_, devices := o.supply()
	return microsPerStep + microsPerDevice*float64(devices)
}

// checkSearch refuses a claim for which the scheduler could search too long where it
// just does not fit.
func (r *renderer) checkSearch(blocks []block, at *field.Path) {
	total := longest(blocks)
	for _, b := range blocks {
		for _, a := range b.asks {
			total += microsPerRequest * float64(len(a.options))
		}
	}
	if total > maxMicros {
		r.refusals.add(ReasonSearchTooLong, at.Child("groups"),
			"where it just does not fit, the scheduler could search for %s on each node, and %d ms are the most; ask for fewer devices or larger ones, or divide them among several pods", spell(total), maxMicros/1000)
	}
}

func spell(micros float64) string {
	if micros >= 1e6 {
		return "seconds"
	}
	return fmt.Sprintf("%.0f ms", micros/1000)
}

// term is one request in the search.
type term struct {
	ask
	block int
	// matched and parent are the block's; first is the first of those with one parent.
	matched, first bool
	parent         int
}

func terms(blocks []block) []term {
	var out []term
	seen := map[int]bool{0: true}
	for i, b := range blocks {
		for _, a := range b.asks {
			out = append(out, term{ask: a, block: i, matched: b.matched, parent: b.parent, first: !seen[b.parent]})
			seen[b.parent] = true
		}
	}
	return out
}

// longest is the longest search, in microseconds: over all requests, what it takes to
// find that one lacks a single device, for every way to meet the requests before it.
func longest(blocks []block) float64 {
	most := 0.0
	all := terms(blocks)
	for i, failing := range all {
		spent, ways := 0.0, 1.0
		for _, t := range all[:i] {
			if t.matched && t.block == failing.block {
				continue // pairs were measured together, and are few
			}
			tries, met := t.met(failing, wanted(all[:i+1]))
			spent += ways * tries
			ways *= met
		}
		most = max(most, spent+ways*failing.unmet())
	}
	return most
}

// wanted is the share of GPUs that requests ask for, in compute slices.
func wanted(all []term) int {
	sum := 0
	for _, t := range all {
		most := 0
		for _, o := range t.options {
			most = max(most, o.count*o.weight())
		}
		sum += most
	}
	return sum
}

// met is what it takes to find every way to meet a request, and how many ways these are,
// while a later one fails. If that one is for GPUs or slices too, there is hardly more
// free of them than all want together, or it would not fail.
func (t term) met(failing term, wanted int) (micros, ways float64) {
	for _, o := range t.options {
		supply, _ := o.supply()
		parents := 1.0
		switch {
		case t.parent != 0:
			supply = supply / usualGPUs
			if t.first {
				parents = usualGPUs
			}
		case o.weight() > 0 && failing.size() > 0:
			supply = min(supply, wanted/o.weight())
		}
		supply = max(supply, o.count)
		for k := range o.count {
			micros += parents * choose(supply, k) * microsPerStep
		}
		ways += parents * choose(supply, o.count)
	}
	if t.matched && t.options[0].kind == kindGPU {
		return micros, 1 // it follows from the NIC
	}
	return micros, ways
}

// unmet is what it takes to find that one device is missing: every set of those that are
// there is tried, with one parent on every GPU.
func (t term) unmet() float64 {
	sum := 0.0
	for _, o := range t.options {
		steps := float64(int64(1) << (o.count - 1))
		if t.first {
			steps *= usualGPUs
		}
		sum += steps * o.micros()
	}
	return sum
}

// choose is the number of ways to choose k of n.
func choose(n, k int) float64 {
	out := 1.0
	for i := range k {
		out *= float64(n-i) / float64(i+1)
	}
	return out
}
