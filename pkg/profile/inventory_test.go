package profile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/profile"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// TestSummarize: equal nodes count once, in whatever order they are listed, and what
// other drivers and older generations publish does not count.
func TestSummarize(t *testing.T) {
	w := cluster(t, slices.Options{}, "mixed")
	w.add(t, "again", server(t, "mixed"), slices.Options{})
	foreign, old := w.slices[0].DeepCopy(), w.slices[0].DeepCopy()
	foreign.Spec.Driver = "gpu.nvidia.com"
	foreign.Spec.Pool.Name = "foreign"
	old.Spec.Pool.Generation = 0
	w.slices = append(w.slices, foreign, old)
	want := w.inventory()
	if len(want.Nodes) != 1 {
		t.Fatalf("%d kinds of nodes, want one: %+v", len(want.Nodes), want.Nodes)
	}
	rand.Shuffle(len(w.slices), func(i, j int) { w.slices[i], w.slices[j] = w.slices[j], w.slices[i] })
	if diff := cmp.Diff(want, w.inventory()); diff != "" {
		t.Errorf("in another order (-want +got):\n%s", diff)
	}
	h100 := profile.GPU{Model: "NVIDIA H100 80GB HBM3", Architecture: "Hopper", Memory: 81559 << 20, NVLink: true}
	l40s := profile.GPU{Model: "NVIDIA L40S", Architecture: "Ada Lovelace", Memory: 46068 << 20, NVLink: true}
	gpus := []profile.Stock[profile.GPU]{{Kind: h100, Count: 1, Devices: 1}, {Kind: l40s, Count: 1, Devices: 1}}
	if diff := cmp.Diff(gpus, want.Nodes[0].GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	got := map[string][2]int{}
	for _, s := range want.Nodes[0].Slices {
		got[s.Kind.Profile] = [2]int{s.Count, s.Devices}
	}
	counts := map[string][2]int{"1g.10gb": {7, 7}, "1g.10gb+me": {1, 7}, "1g.20gb": {4, 4}, "2g.20gb": {3, 3}, "3g.40gb": {2, 2}, "4g.40gb": {1, 1}, "7g.80gb": {1, 1}}
	if diff := cmp.Diff(counts, got); diff != "" {
		t.Errorf("slices that can be had at once, and devices (-want +got):\n%s", diff)
	}
}

// TestSummarizePairs counts GPUs with NICs as devices where they are, else by the switch
// that they share.
func TestSummarizePairs(t *testing.T) {
	tests := map[string]struct {
		server string
		opts   slices.Options
		// device and pairs are what all pairs together are.
		device bool
		pairs  int
	}{
		"devices, one of each at a switch":   {"dgx-h100", slices.Options{Pairs: true}, true, 8},
		"by switch, one of each at a switch": {"dgx-h100", slices.Options{}, false, 8},
		"devices, two of each at a switch":   {"dgx-a100", slices.Options{Pairs: true}, true, 8},
		"by switch, two of each at a switch": {"dgx-a100", slices.Options{}, false, 8},
		"by switch, nothing but GPUs":        {"a30x4", slices.Options{}, false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, p := range cluster(t, tc.opts, tc.server).inventory().Nodes[0].Pairs {
				if p.Kind.Device != tc.device {
					t.Errorf("pair %+v: device is %v", p.Kind, p.Kind.Device)
				}
				n += p.Count
			}
			if n != tc.pairs {
				t.Errorf("%d pairs, want %d", n, tc.pairs)
			}
		})
	}
}

// TestNames: what is read is called as package slices publishes it.
func TestNames(t *testing.T) {
	shared := cluster(t, slices.Options{NICSharing: slices.NICByBandwidth}, "dgx-h100").inventory()
	for _, n := range shared.Nodes[0].NICs {
		if !n.Kind.Shared || n.Kind.Bandwidth != map[string]int64{"InfiniBand": 400e9, "Ethernet": 200e9}[n.Kind.LinkLayer] || n.Kind.LinkLayer == "" || n.Kind.Rail != (n.Kind.LinkLayer == "InfiniBand") {
			t.Errorf("NIC %+v", n.Kind)
		}
	}
	w := cluster(t, slices.Options{}, "dgx-h100")
	if diff := cmp.Diff(profile.Inventory{Classes: w.inventory().Classes}, profile.Summarize("other.example.com", w.slices, w.classes)); diff != "" {
		t.Errorf("of another driver (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(profile.Inventory{}, profile.Summarize(driver, []*resourceapi.ResourceSlice{}, nil)); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}
