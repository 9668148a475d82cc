package slices_test

import (
	"fmt"
	"maps"
	stdslices "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// pairs publishes pairs of GPUs and NICs.
var pairs = slices.Options{NodeName: "worker-1", Partitions: true, Pairs: true}

// TestBuildNICGolden compares what is published for NICs, alone, shared and in pairs.
func TestBuildNICGolden(t *testing.T) {
	node := withNICs(t, 2)
	node.GPUs, node.NICs = node.GPUs[6:], append(node.NICs[6:8:8], node.NICs[9])
	for i := range node.GPUs {
		node.GPUs[i].MIG = nil
	}
	rails := map[hardware.PCIAddress]int{node.NICs[0].PCI: 0, node.NICs[1].PCI: 1}
	tests := map[string]slices.Options{
		"nics":        {NodeName: "worker-1", Partitions: true, Rails: rails},
		"nics-shared": {NodeName: "worker-1", Partitions: true, Rails: rails, NICSharing: slices.NICByBandwidth},
		"nics-pairs":  {NodeName: "worker-1", Partitions: true, Rails: rails, Pairs: true},
	}
	for name, opts := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.Marshal(build(t, node, opts))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yaml", string(raw))
		})
	}
}

// TestBuildPairOrderGolden compares the order in which pairs are handed out, where
// each switch has one GPU and one NIC and where it has two of each.
func TestBuildPairOrderGolden(t *testing.T) {
	for name, perSwitch := range map[string]int{"pairs-8x1": 1, "pairs-4x2": 2} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".order", order(pool(t, build(t, withNICs(t, perSwitch), pairs))))
		})
	}
}

// TestBuildPairsFirstFit: taking the first pair that is free, again and again, gives
// every GPU a NIC of its own.
func TestBuildPairsFirstFit(t *testing.T) {
	for _, perSwitch := range []int{1, 2, 4} {
		node := withNICs(t, perSwitch)
		taken := map[string]bool{}
		got := 0
		for _, s := range pool(t, build(t, node, pairs)).Slices {
			for _, d := range s.Devices {
				if *d.Attributes[slices.AttributeType].StringValue != slices.TypePair {
					continue
				}
				gpu, nic := d.ConsumesCounters[0].CounterSet, d.ConsumesCounters[1].CounterSet
				if !taken[gpu] && !taken[nic] {
					taken[gpu], taken[nic] = true, true
					got++
				}
			}
		}
		if got != len(node.GPUs) {
			t.Errorf("%d on a switch: %d pairs side by side, want %d", perSwitch, got, len(node.GPUs))
		}
	}
}

// TestBuildPairsNear: a GPU is paired with the NICs that are nearest to it and not
// beyond a host bridge, and a physical function is left to its virtual ones.
func TestBuildPairsNear(t *testing.T) {
	bridges := func(of ...string) (out []hardware.PCIAddress) {
		for _, b := range of {
			out = append(out, hardware.PCIAddress("0000:"+b))
		}
		return out
	}
	nic := func(pci string, at ...string) hardware.NIC {
		return hardware.NIC{PCI: hardware.PCIAddress(pci), PCIeRoot: "pci0000:10", NUMANode: ptr(0), Bridges: bridges(at...)}
	}
	pix := nic("0000:13:00.0", "10:01.0", "11:00.0", "12:01.0")
	pxb := nic("0000:16:00.0", "10:01.0", "14:00.0", "15:01.0")
	phb := nic("0000:18:00.0", "10:02.0")
	sys := hardware.NIC{PCI: "0000:90:00.0"}
	vf := pix
	vf.PCI, vf.Parent = "0000:13:00.1", pix.PCI
	tests := map[string]struct {
		nics []hardware.NIC
		want []string
	}{
		"the nearest":      {nics: []hardware.NIC{pix, pxb, phb, sys}, want: []string{"gpu-0000-19-00-0-nic-0000-13-00-0"}},
		"PXB if none":      {nics: []hardware.NIC{pxb, phb, sys}, want: []string{"gpu-0000-19-00-0-nic-0000-16-00-0"}},
		"not over the CPU": {nics: []hardware.NIC{phb, sys}},
		"virtual function": {nics: []hardware.NIC{pix, vf}, want: []string{"gpu-0000-19-00-0-nic-0000-13-00-1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := hardware.Node{NICs: tc.nics, GPUs: []hardware.GPU{{
				PCI: "0000:19:00.0", UUID: "GPU-a", PCIeRoot: "pci0000:10", NUMANode: ptr(0), Bridges: bridges("10:01.0", "11:00.0", "12:08.0"),
			}}}
			var got []string
			for name, d := range devices(pool(t, build(t, node, pairs))) {
				if *d.Attributes[slices.AttributeType].StringValue == slices.TypePair {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuildPairsLimits: every device keeps the API's limits, with all attributes
// known, and takes from both counter sets.
func TestBuildPairsLimits(t *testing.T) {
	node := withNICs(t, 2)
	opts := pairs
	opts.Rails = map[hardware.PCIAddress]int{}
	for i, n := range node.NICs {
		opts.Rails[n.PCI] = i
	}
	count := map[string]int{}
	for name, d := range devices(pool(t, build(t, node, opts))) {
		kind := *d.Attributes[slices.AttributeType].StringValue
		count[kind]++
		if n := len(d.Attributes) + len(d.Capacity); n > 32 {
			t.Errorf("%s has %d attributes and capacities", name, n)
		}
		want := 1
		if kind == slices.TypePair {
			want = 2
		}
		if len(d.ConsumesCounters) != want {
			t.Errorf("%s takes from %d counter sets, want %d", name, len(d.ConsumesCounters), want)
		}
	}
	if diff := cmp.Diff(map[string]int{"gpu": 8, "nic": 10, "gpu-nic": 16, "mig": 8 * 25}, count); diff != "" {
		t.Errorf("devices by type (-want +got):\n%s", diff)
	}
}

// TestBuildWithoutCounters: where the API server keeps no counters there are no
// pairs, and NICs are in their own pool.
func TestBuildWithoutCounters(t *testing.T) {
	got := build(t, withNICs(t, 1), slices.Options{NodeName: "worker-1", Pairs: true})
	want := map[string]int{"worker-1/gpu": 8, "worker-1/rdma": 10}
	count := map[string]int{}
	for name, p := range got.Pools {
		for _, d := range devices(p) {
			count[name]++
			if len(d.ConsumesCounters) > 0 {
				t.Errorf("%s consumes counters", d.Name)
			}
		}
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("devices by pool (-want +got):\n%s", diff)
	}
}

// TestBuildOrderFollowsNICs: GPUs with a free NIC near them come first, else the
// order stays, and that rewrites one slice.
func TestBuildOrderFollowsNICs(t *testing.T) {
	for _, perSwitch := range []int{1, 2} {
		node := withNICs(t, perSwitch)
		opts := pairs
		before := pool(t, build(t, node, opts))
		// The NICs near the last two GPUs.
		opts.BusyNICs = map[hardware.PCIAddress]bool{node.NICs[6].PCI: true, node.NICs[7].PCI: true}
		after := pool(t, build(t, node, opts))
		var got, want []string
		changed := 0
		for i, s := range after.Slices {
			if cmp.Diff(before.Slices[i], s) != "" {
				changed++
			}
			for _, d := range s.Devices {
				if *d.Attributes[slices.AttributeType].StringValue == slices.TypeGPU {
					got = append(got, d.Name)
				}
			}
		}
		for _, i := range []int{5, 4, 3, 2, 1, 0, 7, 6} {
			want = append(want, node.GPUs[i].DeviceName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d on a switch (-want +got):\n%s", perSwitch, diff)
		}
		if changed != 1 {
			t.Errorf("%d slices changed, want 1", changed)
		}
	}
}

// TestBuildNICTaints: a NIC's taint is on the NIC and its pairs, a GPU's on its pairs
// too, and so is an instance that nobody claimed.
func TestBuildNICTaints(t *testing.T) {
	node := withNICs(t, 1)
	taint := func(key string) []resourceapi.DeviceTaint {
		return []resourceapi.DeviceTaint{{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	opts := pairs
	opts.NICTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{node.NICs[0].PCI: taint("port-down")}
	opts.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{node.GPUs[1].PCI: taint("gpu-lost")}
	opts.Existing = map[hardware.PCIAddress][]hardware.Instance{node.GPUs[2].PCI: {{ID: 1}}}
	got := map[string]string{}
	for name, d := range devices(pool(t, build(t, node, opts))) {
		if kind := *d.Attributes[slices.AttributeType].StringValue; len(d.Taints) > 0 && kind != slices.TypeMIG {
			got[name] = d.Taints[0].Key
		}
	}
	want := map[string]string{
		"gpu-0000-18-00-0-nic-0000-13-00-0": "port-down", "nic-0000-13-00-0": "port-down",
		"gpu-0000-28-00-0-nic-0000-23-00-0": "gpu-lost", "gpu-0000-28-00-0": "gpu-lost",
		"gpu-0000-38-00-0-nic-0000-33-00-0": slices.TaintForeignInstance, "gpu-0000-38-00-0": slices.TaintForeignInstance,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// TestBuildBandwidth: rates of ports that have a link add up; in sharing they are
// whole gigabits, and a NIC without a link is nobody's to share.
func TestBuildBandwidth(t *testing.T) {
	tests := map[string]struct {
		sharing slices.NICSharing
		ports   []int64 // negative: without a link
		want    string
		shared  bool
	}{
		"one port":                 {ports: []int64{400e9}, want: "400G"},
		"two ports":                {ports: []int64{100e9, 100e9}, want: "200G"},
		"one without a link":       {ports: []int64{100e9, -100e9}, want: "100G"},
		"no link":                  {ports: []int64{-100e9}},
		"odd rate":                 {ports: []int64{2.5e9}, want: "2500M"},
		"one port, shared":         {sharing: slices.NICByBandwidth, ports: []int64{400e9}, want: "400G", shared: true},
		"odd rate, shared":         {sharing: slices.NICByBandwidth, ports: []int64{2.5e9}, want: "2G", shared: true},
		"no link, not shared":      {sharing: slices.NICByBandwidth, ports: []int64{-100e9}},
		"under one step, as it is": {sharing: slices.NICByBandwidth, ports: []int64{5e8}, want: "500M"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := infiniBand(0, "0000:13:00.0")
			n.RDMA[0].Ports = nil
			for i, rate := range tc.ports {
				p := hardware.RDMAPort{Number: i + 1, State: hardware.PortActive, BitsPerSecond: rate}
				if rate < 0 {
					p.State, p.BitsPerSecond = "DOWN", -rate
				}
				n.RDMA[0].Ports = append(n.RDMA[0].Ports, p)
			}
			resources := build(t, hardware.Node{NICs: []hardware.NIC{n}}, slices.Options{NodeName: "worker-1", NICSharing: tc.sharing})
			d := devices(resources.Pools[slices.RDMAPoolName("worker-1")])[n.DeviceName()]
			got := ""
			if c, ok := d.Capacity[slices.CapacityBandwidth]; ok {
				got = c.Value.String()
			}
			if shared := d.AllowMultipleAllocations != nil; got != tc.want || shared != tc.shared {
				t.Errorf("bandwidth %q, shared %v; want %q, %v", got, shared, tc.want, tc.shared)
			}
		})
	}
}

// TestBuildNICsRDMA08: what a claim holds keeps its pool, and NICs that are there are
// not withdrawn.
func TestBuildNICsRDMA08(t *testing.T) {
	node := withNICs(t, 1)
	nic, pair := node.NICs[0].DeviceName(), hardware.PairName(node.GPUs[1], node.NICs[1])
	held := func(o *slices.Options, pools ...string) {
		o.HeldPools = map[string]string{}
		for i := 0; i < len(pools); i += 2 {
			o.Held = append(o.Held, pools[i])
			o.HeldPools[pools[i]] = pools[i+1]
		}
	}
	tests := map[string]struct {
		change func(*hardware.Node, *slices.Options)
		want   string // part of the error
	}{
		"in its pool":       {change: func(_ *hardware.Node, o *slices.Options) { held(o, nic, "worker-1/gpu", pair, "worker-1/gpu") }},
		"pool not recorded": {change: func(_ *hardware.Node, o *slices.Options) { o.Held = []string{nic} }},
		"pairs switched on": {change: func(_ *hardware.Node, o *slices.Options) { held(o, nic, "worker-1/rdma") }, want: "drain the node first"},
		"pairs switched off": {
			change: func(_ *hardware.Node, o *slices.Options) { o.Pairs = false; held(o, pair, "worker-1/gpu") },
			want:   pair + ": a claim holds it",
		},
		"the NIC of a pair is gone": {
			change: func(n *hardware.Node, o *slices.Options) {
				n.NICs = append(n.NICs[:1:1], n.NICs[2:]...)
				held(o, pair, "worker-1/gpu")
			},
			want: pair + ": a claim holds it",
		},
		"the NIC is gone": {change: func(n *hardware.Node, o *slices.Options) { n.NICs = n.NICs[1:]; held(o, nic, "worker-1/gpu") }},
		"pairs and sharing": {
			change: func(_ *hardware.Node, o *slices.Options) { o.NICSharing = slices.NICByBandwidth },
			want:   "switch one of the two off",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n, opts := node, pairs
			n.NICs = stdslices.Clone(node.NICs)
			tc.change(&n, &opts)
			_, err := slices.Build(n, opts)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestBuildPCIeSwitch: every device has the switch that it sits behind, a MIG slice
// its GPU's; what sits on a root port has that.
func TestBuildPCIeSwitch(t *testing.T) {
	node := withNICs(t, 1)
	got := map[string]int{}
	for name, d := range devices(pool(t, build(t, node, pairs))) {
		v := d.Attributes[slices.AttributePCIeSwitch].StringValue
		if v == nil {
			t.Errorf("%s has none", name)
			continue
		}
		got[*v]++
	}
	want := map[string]int{"0000:a0:01.0": 1, "0000:b0:01.0": 1}
	for i := range node.GPUs {
		want[fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1)+1)] = 1 + 25 + 1 + 1 // GPU, slices, pair, NIC
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices by switch (-want +got):\n%s\nof %v", diff, stdslices.Sorted(maps.Keys(got)))
	}
}

// TestNICsAreWhatIsPublished: who chooses among NICs sees them as Build publishes them,
// whatever the options.
func TestNICsAreWhatIsPublished(t *testing.T) {
	node := withNICs(t, 2)
	rails := hardware.Rails(node, nil)
	for name, opts := range map[string]slices.Options{
		"alone":  {NodeName: "worker-1", Partitions: true, Rails: rails},
		"shared": {NodeName: "worker-1", Partitions: true, Rails: rails, NICSharing: slices.NICByBandwidth},
		"pairs":  {NodeName: "worker-1", Partitions: true, Rails: rails, Pairs: true},
	} {
		t.Run(name, func(t *testing.T) {
			published := map[string]resourceapi.Device{}
			for _, pool := range build(t, node, opts).Pools {
				for _, s := range pool.Slices {
					for _, d := range s.Devices {
						published[d.Name] = d
					}
				}
			}
			nics := slices.NICs(node, opts)
			if len(nics) != len(node.NICs) {
				t.Errorf("%d devices for %d NICs", len(nics), len(node.NICs))
			}
			for _, d := range nics {
				if diff := cmp.Diff(published[d.Name], d); diff != "" {
					t.Errorf("%s (-published +seen):\n%s", d.Name, diff)
				}
			}
		})
	}
}
