package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/hardware"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// ways are how a claim can ask for GPUs with a NIC each.
var ways = map[string]struct {
	pairs bool
	ask   func(members int) *resourceapi.ResourceClaim
}{
	"pairs":      {pairs: true, ask: func(n int) *resourceapi.ResourceClaim { return claimOf(request("p", "gpu-nic", n)) }},
	"pcieSwitch": {ask: func(n int) *resourceapi.ResourceClaim { return matched(n, driverName+"/pcieSwitch") }},
	"pcieRoot":   {ask: func(n int) *resourceapi.ResourceClaim { return matched(n, "resource.kubernetes.io/pcieRoot") }},
	"none": {ask: func(n int) *resourceapi.ResourceClaim {
		return claimOf(request("g", "gpu", n), request("n", "rdma", n))
	}},
}

const (
	sequences = 200
	podsEach  = 24
)

// BenchmarkNearness lets pods come and go at random, 200 sequences of them, on a
// dgx-h100: most ask for one, two or four GPUs with a NIC each, some for a GPU or a
// NIC alone. Its figures are how far the NIC of each GPU was away, as a share of all,
// and the share of those pods that were given what they asked for.
func BenchmarkNearness(b *testing.B) {
	hw := trainingNode(b, 1)
	for i := range hw.GPUs {
		hw.GPUs[i].MIG = nil // nobody asks for slices here
	}
	for name, way := range ways {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				distances := map[hardware.Distance]int{}
				var asked, given, pairs int
				for seed := range uint64(sequences) {
					s := sequence{hw: hw, pairs: way.pairs, ask: way.ask, distances: distances}
					s.run(b, seed)
					asked, given = asked+s.asked, given+s.given
				}
				for _, n := range distances {
					pairs += n
				}
				for _, d := range []hardware.Distance{hardware.DistancePIX, hardware.DistancePXB, hardware.DistancePHB, hardware.DistanceNODE, hardware.DistanceSYS} {
					b.ReportMetric(100*float64(distances[d])/float64(pairs), "%-"+string(d))
				}
				b.ReportMetric(100*float64(given)/float64(asked), "%-accepted")
			}
		})
	}
}

// TestPairsAreNear: a pair is always two devices that are as near as can be, and is
// found whenever a constraint finds one.
func TestPairsAreNear(t *testing.T) {
	hw := trainingNode(t, 1)
	for i := range hw.GPUs {
		hw.GPUs[i].MIG = nil
	}
	given := map[string]int{}
	for _, name := range []string{"pairs", "pcieSwitch"} {
		distances := map[hardware.Distance]int{}
		for seed := range uint64(3) {
			s := sequence{hw: hw, pairs: ways[name].pairs, ask: ways[name].ask, distances: distances}
			s.run(t, seed)
			given[name] += s.given
			if s.given == s.asked {
				t.Errorf("%s: nothing was refused: the node was never full", name)
			}
		}
		if len(distances) != 1 || distances[hardware.DistancePIX] == 0 {
			t.Errorf("%s: distances %v, want only %s", name, distances, hardware.DistancePIX)
		}
	}
	if given["pairs"] < given["pcieSwitch"] {
		t.Errorf("%d pods got pairs, %d with constraints", given["pairs"], given["pcieSwitch"])
	}
}

// sequence is one random history of a node.
type sequence struct {
	hw           hardware.Node
	pairs        bool
	ask          func(members int) *resourceapi.ResourceClaim
	distances    map[hardware.Distance]int
	asked, given int

	state   *allocate.State
	running []tenant
}

// tenant is a pod that has its devices; members is 0 for one with a GPU or a NIC alone.
type tenant struct {
	uid     types.UID
	members int
	busy    []hardware.PCIAddress
}

// run gives every way the same pods: what is asked and who leaves is drawn without
// regard to what was given.
func (s *sequence) run(t testing.TB, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	s.state = nicState(t, s.hw, 1, s.options())
	for i := range podsEach {
		kind, leave := r.IntN(10), r.Float64()
		if len(s.running) > 0 && leave < 0.4 {
			k := int(leave / 0.4 * float64(len(s.running)))
			s.state.Release(s.running[k].uid)
			s.running = append(s.running[:k], s.running[k+1:]...)
			s.publish(t)
		}
		uid := types.UID(fmt.Sprintf("pod-%d", i))
		switch {
		case kind < 2:
			s.pod(t, uid, 0, claimOf(request("g", "gpu", 1)))
		case kind < 3:
			s.pod(t, uid, 0, claimOf(request("n", "rdma", 1)))
		default:
			members := []int{1, 1, 1, 2, 2, 4, 4}[kind-3]
			s.pod(t, uid, members, s.ask(members))
		}
	}
}

func (s *sequence) options() publish.Options {
	opts := publish.Options{Partitions: true, Pairs: s.pairs, BusyNICs: map[hardware.PCIAddress]bool{}}
	for _, tenant := range s.running {
		for _, address := range tenant.busy {
			opts.BusyNICs[address] = true
		}
	}
	return opts
}

// publish follows what is busy, as the node does.
func (s *sequence) publish(t testing.TB) {
	opts := s.options()
	opts.NodeName = nodeName(0)
	resources, err := publish.Build(s.hw, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.state.Publish(allocate.Published(driverName, opts.NodeName, resources))
}

func (s *sequence) pod(t testing.TB, uid types.UID, members int, claim *resourceapi.ResourceClaim) {
	if members > 0 {
		s.asked++
	}
	claim.UID = uid
	results, err := s.state.Allocate(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(0)}}, claim)
	if errors.Is(err, allocate.ErrNoFit) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.state.Hold(uid, results[0])
	got := tenant{uid: uid, members: members}
	var gpus []hardware.GPU
	var nics []hardware.NIC
	for _, r := range results[0].Devices.Results {
		d, err := s.hw.Device(r.Device)
		if err != nil {
			t.Fatal(err)
		}
		if d.GPU.PCI != "" {
			gpus = append(gpus, d.GPU)
		}
		if d.NIC != nil {
			nics = append(nics, *d.NIC)
			got.busy = append(got.busy, d.NIC.PCI)
		}
	}
	if members > 0 {
		s.given++
		for i := range gpus {
			s.distances[hardware.DistanceBetween(gpus[i].Place(), nics[i].Place())]++
		}
	}
	s.running = append(s.running, got)
	s.publish(t)
}
