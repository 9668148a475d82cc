package bench

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// kinds are what claims of the mixes ask for: a profile, or the whole GPU.
var kinds = []string{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", whole}

const whole = "gpu"

// weight is a kind's share of a GPU, in memory slices.
var weight = map[string]int{"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8, whole: 8}

const slicesPerGPU = 8

// device is one published device: the slots that it takes of one GPU.
type device struct {
	name string
	gpu  int
	at   mig.Placement
}

// node gives out devices as the scheduler does: the first in published order that is
// free. That this is so is tested against the scheduler's own allocator.
type node struct {
	byKind map[string][]device
	// used has one bit per slot, by GPU.
	used []uint16
}

// newNode is a dgx-h100 with its devices in published order, or alphabetically.
func newNode(t testing.TB, alphabetical bool) *node {
	t.Helper()
	server, _, err := catalog.LoadServer("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	hw := server.Node()
	resources, err := publish.Build(hw, publish.Options{NodeName: "node", Partitions: true})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{byKind: map[string][]device{}, used: make([]uint16, len(hw.GPUs))}
	var names []string
	for _, s := range resources.Pools[publish.PoolName("node")].Slices {
		for _, d := range s.Devices {
			names = append(names, d.Name)
		}
	}
	if alphabetical {
		sort.Strings(names)
	}
	for _, name := range names {
		d, err := hw.Device(name)
		if err != nil {
			t.Fatal(err)
		}
		gpu := slices.IndexFunc(hw.GPUs, func(g hardware.GPU) bool { return g.PCI == d.GPU.PCI })
		kind, at := whole, mig.Placement{Size: slicesPerGPU}
		if d.Partition != nil {
			kind, at = d.Partition.Profile.Name, d.Partition.Placement
		}
		n.byKind[kind] = append(n.byKind[kind], device{name: name, gpu: gpu, at: at})
	}
	return n
}

func (d device) mask() uint16 { return (1<<d.at.Size - 1) << d.at.Start }

// take gives out the first device of the kind that is free.
func (n *node) take(kind string) (device, bool) {
	for _, d := range n.byKind[kind] {
		if n.used[d.gpu]&d.mask() == 0 {
			n.used[d.gpu] |= d.mask()
			return d, true
		}
	}
	return device{}, false
}

func (n *node) release(d device) { n.used[d.gpu] &^= d.mask() }

// fitsAfterRepack tells whether so many of each kind fit on the GPUs if all that is
// there could be moved. A GPU has a lower half, slots 0 to 3, and an upper one, 4 to
// 7, whose last slot only a 3g uses; 4g goes only into lower halves, so each 3g is
// best put into an upper one, where it wastes least.
func fitsAfterRepack(gpus int, count map[string]int) bool {
	gpus -= count[whole] + count["7g.80gb"]
	upper := gpus - min(count["3g.40gb"], gpus)
	lower := gpus - count["4g.40gb"] - (count["3g.40gb"] - min(count["3g.40gb"], gpus))
	if gpus < 0 || lower < 0 {
		return false
	}
	return count["2g.20gb"] <= 2*lower+upper && count["1g.10gb"] <= 4*lower+3*upper-2*count["2g.20gb"]
}

// mix is how often each kind is asked for, in the order of kinds, in percent.
type mix struct {
	name  string
	share [6]int
}

var mixes = []mix{
	{"inference", [6]int{65, 35, 0, 0, 0, 0}},
	{"balanced", [6]int{30, 25, 15, 10, 10, 10}},
	{"bimodal", [6]int{85, 0, 0, 0, 0, 15}},
	{"mid", [6]int{40, 25, 20, 15, 0, 0}},
}

func (m mix) draw(r *rand.Rand) string {
	n := r.IntN(100)
	for i, share := range m.share {
		if n -= share; n < 0 {
			return kinds[i]
		}
	}
	panic("the shares of mix " + m.name + " do not add up to 100")
}

// meanWeight is the mean number of slices that a claim asks for.
func (m mix) meanWeight() float64 {
	sum := 0
	for i, share := range m.share {
		sum += share * weight[kinds[i]]
	}
	return float64(sum) / 100
}
