package bench

import (
	"container/heap"
	"maps"
	"math/rand/v2"
	"testing"
)

// The loss model: claims arrive at random (Poisson), stay for a random time with mean
// 1 (exponential), and go away for good where they do not fit. At load 1 they ask, on
// average, for exactly all slices. What the first warmUp lifetimes do is not counted.
const (
	warmUp   = 5.0
	measured = 20.0
	runs     = 40
)

var loads = []float64{0.70, 0.85, 1.00, 1.15, 1.30}

// policy decides about one claim and remembers it.
type policy interface {
	accept(kind string) (release func(), ok bool)
}

type firstFit struct{ node *node }

func (p firstFit) accept(kind string) (func(), bool) {
	d, ok := p.node.take(kind)
	return func() { p.node.release(d) }, ok
}

// repack moves what is there whenever that makes room: no order can accept more of
// what comes than this, though over time it may, having refused other claims before.
type repack struct {
	gpus  int
	count map[string]int
}

func (p repack) accept(kind string) (func(), bool) {
	p.count[kind]++
	if !fitsAfterRepack(p.gpus, p.count) {
		p.count[kind]--
		return nil, false
	}
	return func() { p.count[kind]-- }, true
}

type departure struct {
	at      float64
	release func()
}

type departures []departure

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].at < d[j].at }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)        { *d = append(*d, x.(departure)) }
func (d *departures) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// accepted is the share of the slices asked for that a policy gave, in one run. Equal
// seeds give all policies the same claims.
func accepted(m mix, load float64, seed uint64, gpus int, p policy) float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	rate := load * float64(gpus*slicesPerGPU) / m.meanWeight()
	var leaving departures
	asked, given := 0, 0
	for now := r.ExpFloat64() / rate; now < warmUp+measured; now += r.ExpFloat64() / rate {
		kind, stay := m.draw(r), r.ExpFloat64()
		for len(leaving) > 0 && leaving[0].at <= now {
			heap.Pop(&leaving).(departure).release()
		}
		release, ok := p.accept(kind)
		if ok {
			heap.Push(&leaving, departure{at: now + stay, release: release})
		}
		if now < warmUp {
			continue
		}
		asked += weight[kind]
		if ok {
			given += weight[kind]
		}
	}
	return float64(given) / float64(asked)
}

// BenchmarkAcceptance is the share of the work asked for that a node with eight H100
// accepts in published order, of what it would accept if running work could be moved.
func BenchmarkAcceptance(b *testing.B) {
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			published, byName := newNode(b, false), newNode(b, true)
			gpus := len(published.used)
			for b.Loop() {
				ours, alphabetical, bound := 0.0, 0.0, 0.0
				for _, load := range loads {
					for seed := range uint64(runs) {
						clear(published.used)
						clear(byName.used)
						ours += accepted(m, load, seed, gpus, firstFit{published})
						alphabetical += accepted(m, load, seed, gpus, firstFit{byName})
						bound += accepted(m, load, seed, gpus, repack{gpus: gpus, count: map[string]int{}})
					}
				}
				b.ReportMetric(100*ours/bound, "%-of-repack")
				b.ReportMetric(100*(ours-alphabetical)/float64(len(loads)*runs), "pp-over-alphabetical")
				b.ReportMetric(100*ours/float64(len(loads)*runs), "%-accepted")
			}
		})
	}
}

// TestRepackBound compares the closed form with a search over all placements.
func TestRepackBound(t *testing.T) {
	n := newNode(t, false)
	// one is all that fits on a single GPU, two all that fits on two.
	one := map[[6]int]bool{}
	var search func(used uint16, from int, count [6]int)
	first := map[string][]device{}
	for kind, all := range n.byKind {
		for _, d := range all {
			if d.gpu == 0 {
				first[kind] = append(first[kind], d)
			}
		}
	}
	search = func(used uint16, from int, count [6]int) {
		one[count] = true
		for i := from; i < len(kinds); i++ {
			for _, d := range first[kinds[i]] {
				if used&d.mask() == 0 {
					next := count
					next[i]++
					search(used|d.mask(), i, next)
				}
			}
		}
	}
	search(0, 0, [6]int{})
	two := map[[6]int]bool{}
	for a := range one {
		for b := range one {
			sum := a
			for i := range sum {
				sum[i] += b[i]
			}
			two[sum] = true
		}
	}
	for gpus, fits := range map[int]map[[6]int]bool{1: one, 2: two} {
		checked := 0
		for count := range every(gpus) {
			named := map[string]int{}
			for i, c := range count {
				named[kinds[i]] = c
			}
			if got := fitsAfterRepack(gpus, maps.Clone(named)); got != fits[count] {
				t.Errorf("%d GPUs, %v: fits is %v, want %v", gpus, named, got, fits[count])
			}
			checked++
		}
		t.Logf("%d GPUs: %d sets of claims compared, %d of them fit", gpus, checked, len(fits))
	}
}

// every is all sets of claims that might fit on so many GPUs, and some that do not.
func every(gpus int) func(func([6]int) bool) {
	return func(yield func([6]int) bool) {
		limit := [6]int{7*gpus + 1, 3*gpus + 1, 2*gpus + 1, gpus + 1, gpus + 1, gpus + 1}
		var count [6]int
		for {
			if !yield(count) {
				return
			}
			i := 0
			for ; i < len(count); i++ {
				if count[i]++; count[i] <= limit[i] {
					break
				}
				count[i] = 0
			}
			if i == len(count) {
				return
			}
		}
	}
}
