package slices_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/slices"
)

var partitions = slices.Options{NodeName: "worker-1", Partitions: true}

// TestBuildDISC01: whether a GPU can do MIG is decided for each GPU alone, and
// one that cannot is published whole, without counters.
func TestBuildDISC01(t *testing.T) {
	can := server(t, "mixed").GPUs[0]
	cannot := server(t, "mixed").GPUs[1]
	noProfiles := cannot
	noProfiles.PCI, noProfiles.MIG = "0000:87:00.0", &hardware.MIG{}
	noPlacements := cannot
	noPlacements.PCI, noPlacements.MIG = "0000:88:00.0", &hardware.MIG{Profiles: []mig.Profile{{Name: "1g.10gb", MaxInstances: 7}}}

	tests := map[string]struct {
		gpus []hardware.GPU
		want map[string]bool // whole GPU to whether it has counters
		sets int
	}{
		"none can": {
			gpus: []hardware.GPU{cannot, noProfiles, noPlacements},
			want: map[string]bool{"gpu-0000-86-00-0": false, "gpu-0000-87-00-0": false, "gpu-0000-88-00-0": false},
		},
		"one can and one cannot": {
			gpus: []hardware.GPU{can, cannot},
			want: map[string]bool{"gpu-0000-3b-00-0": true, "gpu-0000-86-00-0": false},
			sets: 1,
		},
		"no GPU at all": {want: map[string]bool{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := pool(t, build(t, hardware.Node{GPUs: tc.gpus}, partitions))
			if len(p.Slices) == 0 {
				t.Error("no slice: the pool would not exist")
			}
			got, sets := map[string]bool{}, 0
			for _, s := range p.Slices {
				for _, set := range s.SharedCounters {
					sets++
					if len(set.Counters) == 0 {
						t.Errorf("counter set %s is empty", set.Name)
					}
				}
				for _, d := range s.Devices {
					if *d.Attributes[slices.AttributeType].StringValue == slices.TypeGPU {
						got[d.Name] = len(d.ConsumesCounters) > 0
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("whole GPUs (-want +got):\n%s", diff)
			}
			if sets != tc.sets {
				t.Errorf("%d counter sets, want %d", sets, tc.sets)
			}
		})
	}
}

// TestBuildDISC04: what is unknown of the second of three GPUs is left out of its
// device, and never replaced by 0 or by a neighbour's value.
func TestBuildDISC04(t *testing.T) {
	node := server(t, "dgx-h100")
	node.GPUs = node.GPUs[:3]
	node.GPUs[1] = hardware.GPU{PCI: node.GPUs[1].PCI}
	byName := devices(pool(t, build(t, node, partitions)))

	poor := byName[node.GPUs[1].DeviceName()]
	want := resourceapi.Device{
		Name:     node.GPUs[1].DeviceName(),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			slices.AttributeType: {StringValue: ptr(slices.TypeGPU)},
			"driverVersion":      {VersionValue: ptr("580.95.5")},
			"cudaDriverVersion":  {VersionValue: ptr("13.0.0")},
			"resource.kubernetes.io/pciBusID": {
				StringValue: ptr(string(node.GPUs[1].PCI)),
			},
		},
	}
	if diff := cmp.Diff(want, poor); diff != "" {
		t.Errorf("device of an unknown GPU (-want +got):\n%s", diff)
	}
	for _, g := range []hardware.GPU{node.GPUs[0], node.GPUs[2]} {
		if uuid := byName[g.DeviceName()].Attributes["uuid"].StringValue; uuid == nil || *uuid != g.UUID {
			t.Errorf("%s: UUID %v, want %s", g.DeviceName(), uuid, g.UUID)
		}
	}
}

// TestBuildSLICE01: sixteen GPUs are sixteen counter sets and hundreds of
// devices, taints on all of them; every slice stays within the API's limits.
func TestBuildSLICE01(t *testing.T) {
	node := hardware.Node{}
	for i := range 16 {
		g := server(t, "mixed").GPUs[0]
		g.PCI = hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", i))
		node.GPUs = append(node.GPUs, g)
	}
	opts := slices.Options{NodeName: "worker-1", Partitions: true, GPUTaints: map[hardware.PCIAddress][]resourceapi.DeviceTaint{}}
	untainted := pool(t, build(t, node, opts))
	for _, g := range node.GPUs {
		opts.GPUTaints[g.PCI] = []resourceapi.DeviceTaint{{Key: "cleave.dev/unhealthy", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	tainted := pool(t, build(t, node, opts))

	sets, n := 0, 0
	for i, s := range tainted.Slices {
		if len(s.SharedCounters) > 0 && len(s.Devices) > 0 {
			t.Errorf("slice %d has counter sets and devices", i)
		}
		if len(s.SharedCounters) > 8 || len(s.Devices) > 64 {
			t.Errorf("slice %d has %d counter sets and %d devices, at most 8 and 64 are allowed", i, len(s.SharedCounters), len(s.Devices))
		}
		if len(s.Devices) != len(untainted.Slices[i].Devices) {
			t.Errorf("slice %d has %d devices with taints and %d without: a taint moved devices", i, len(s.Devices), len(untainted.Slices[i].Devices))
		}
		for _, d := range s.Devices {
			if len(d.Taints) != 1 {
				t.Errorf("device %s has %d taints, want 1", d.Name, len(d.Taints))
			}
		}
		sets, n = sets+len(s.SharedCounters), n+len(s.Devices)
	}
	// Per GPU 7+7+4+3+2+1+1 MIG slices and the whole GPU.
	if sets != 16 || n != 16*26 {
		t.Errorf("%d counter sets and %d devices, want 16 and %d", sets, n, 16*26)
	}
}

// TestBuildSLICE02: a version that is no semantic version, and would make the API
// server refuse the whole slice, is made one or left out.
func TestBuildSLICE02(t *testing.T) {
	tests := map[string]string{
		"580.95.05":                      "580.95.5",
		"595.58.03":                      "595.58.3",
		"580.95":                         "580.95.0",
		"580":                            "580.0.0",
		"000.00.00":                      "0.0.0",
		"6.19.14.31400000":               "",
		"":                               "",
		"580.x-dev":                      "",
		"580.95.05-1":                    "",
		"v580.95.05":                     "",
		"580..5":                         "",
		"580.95.":                        "",
		"-1.0.0":                         "",
		"580.95.05\n":                    "",
		"99999999999999999999.0.0":       "",
		strings.Repeat("0", 70) + "1.0":  "1.0.0",
		"580.95.٥":                       "",
		strings.Repeat("580.95.05 ", 20): "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			node := server(t, "mixed")
			node.DriverVersion = in
			for name, d := range devices(pool(t, build(t, node, partitions))) {
				got, ok := d.Attributes[slices.AttributeDriverVersion]
				switch {
				case want == "" && ok:
					t.Errorf("%s: got %q, want it left out", name, *got.VersionValue)
				case want != "" && (!ok || *got.VersionValue != want):
					t.Errorf("%s: got %v, want %q", name, got, want)
				}
				if d.Attributes[slices.AttributeCUDADriverVersion].VersionValue == nil {
					t.Errorf("%s: another attribute is lost", name)
				}
			}
		})
	}
}

func TestBuildCUDAVersion(t *testing.T) {
	for in, want := range map[int]string{13000: "13.0.0", 12080: "12.8.0", 0: "", -1: ""} {
		node := server(t, "mixed")
		node.CUDADriverVersion = in
		got := ""
		for _, d := range devices(pool(t, build(t, node, partitions))) {
			if v := d.Attributes[slices.AttributeCUDADriverVersion].VersionValue; v != nil {
				got = *v
			}
		}
		if got != want {
			t.Errorf("%d: got %q, want %q", in, got, want)
		}
	}
}

// TestBuildSYSF01: an unknown NUMA node, nil or -1, is left out; node 0 is not
// taken for unknown.
func TestBuildSYSF01(t *testing.T) {
	for name, tc := range map[string]struct{ in, want *int }{
		"unknown":     {in: nil, want: nil},
		"the kernel":  {in: ptr(-1), want: nil},
		"first node":  {in: ptr(0), want: ptr(0)},
		"second node": {in: ptr(1), want: ptr(1)},
	} {
		t.Run(name, func(t *testing.T) {
			node := server(t, "mixed")
			for i := range node.GPUs {
				node.GPUs[i].NUMANode = tc.in
			}
			for name, d := range devices(pool(t, build(t, node, partitions))) {
				var got *int
				if v := d.Attributes[deviceattribute.StandardDeviceAttributeNUMANode].IntValue; v != nil {
					got = ptr(int(*v))
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestBuildNUMANear: the NUMA nodes that are as good as the device's own are listed with
// it, on GPUs, MIG slices, NICs and pairs alike, where the API server takes lists. A list
// of one, or too long a list, is the node alone.
func TestBuildNUMANear(t *testing.T) {
	var many []int
	for n := range 60 {
		many = append(many, n+8)
	}
	tests := map[string]struct {
		near  []int
		lists bool
		want  resourceapi.DeviceAttribute
	}{
		"several":           {near: []int{4, 6, 7}, lists: true, want: resourceapi.DeviceAttribute{IntValues: []int64{5, 4, 6, 7}}},
		"several, no lists": {near: []int{4, 6, 7}, want: resourceapi.DeviceAttribute{IntValue: ptr(int64(5))}},
		"one":               {lists: true, want: resourceapi.DeviceAttribute{IntValue: ptr(int64(5))}},
		"too many":          {near: many, lists: true, want: resourceapi.DeviceAttribute{IntValue: ptr(int64(5))}},
		"as many as fit":    {near: many[:16], lists: true, want: resourceapi.DeviceAttribute{IntValues: append([]int64{5}, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)}},
		"one more":          {near: many[:17], lists: true, want: resourceapi.DeviceAttribute{IntValue: ptr(int64(5))}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := withNICs(t, 1)
			for i := range node.GPUs {
				node.GPUs[i].NUMANode, node.GPUs[i].NUMANear = ptr(5), tc.near
			}
			for i := range node.NICs {
				node.NICs[i].NUMANode, node.NICs[i].NUMANear = ptr(5), tc.near
			}
			opts := pairs
			opts.Lists = tc.lists
			for name, d := range devices(pool(t, build(t, node, opts))) {
				if diff := cmp.Diff(tc.want, d.Attributes[deviceattribute.StandardDeviceAttributeNUMANode]); diff != "" {
					t.Fatalf("NUMA node of %s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestBuildPCIBusID asks that the attribute is what Kubernetes' own helper makes
// of the address, with which NICs are published, and left out where it refuses.
func TestBuildPCIBusID(t *testing.T) {
	for _, addr := range []hardware.PCIAddress{"0000:3b:00.0", "ffff:ff:1f.7", "10000:e1:00.0", "ffffffff:00:00.0"} {
		node := server(t, "mixed")
		node.GPUs[0].PCI = addr
		got, published := devices(pool(t, build(t, node, partitions)))[node.GPUs[0].DeviceName()].Attributes[deviceattribute.StandardDeviceAttributePCIBusID]
		want, err := deviceattribute.GetPCIBusIDAttribute(string(addr))
		if published != (err == nil) {
			t.Errorf("%s: published is %v, but Kubernetes says %v", addr, published, err)
		}
		if diff := cmp.Diff(want.Value, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
}

// TestBuildOddText: text that the API does not take costs that one attribute.
func TestBuildOddText(t *testing.T) {
	for name, text := range map[string]string{"too long": strings.Repeat("x", 65), "not UTF-8": "\xff", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			node := server(t, "mixed")
			node.GPUs[1].ProductName = text
			d := devices(pool(t, build(t, node, partitions)))[node.GPUs[1].DeviceName()]
			if got, ok := d.Attributes[slices.AttributeProductName]; ok {
				t.Errorf("published as %q", *got.StringValue)
			}
			if d.Attributes[slices.AttributeUUID].StringValue == nil {
				t.Error("the UUID is lost too")
			}
		})
	}
}

// TestBuildNVLinkDomain: a fabric that spans nodes has the same domain everywhere, one
// that ends at a node another one on every node, and MIG slices have none.
func TestBuildNVLinkDomain(t *testing.T) {
	const rack = "4c4c4544-0030-5710-8052-b4c04f4d3332"
	long := strings.Repeat("a.", 120) + "b"
	tests := map[string]struct {
		fabric *hardware.NVLinkFabric
		node   string
		want   string
	}{
		"none":                      {node: "worker-1"},
		"over a rack":               {&hardware.NVLinkFabric{Cluster: rack, Clique: 32766}, "worker-1", rack + ".32766"},
		"over a rack, next node":    {&hardware.NVLinkFabric{Cluster: rack, Clique: 32766}, "worker-2", rack + ".32766"},
		"within a node":             {&hardware.NVLinkFabric{}, "worker-1", "60f4a89a-537d-5139-a70b-cb9eaec86327.0"},
		"within a node, other part": {&hardware.NVLinkFabric{Clique: 5}, "worker-1", "60f4a89a-537d-5139-a70b-cb9eaec86327.5"},
		"within the next node":      {&hardware.NVLinkFabric{}, "worker-2", "9762d144-4d01-5060-8f11-2d7dba4a761f.0"},
		"a long name":               {&hardware.NVLinkFabric{}, long, "9d4503b3-0155-5c5e-8409-dba564d84de2.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := server(t, "mixed")
			node.GPUs[0].NVLink = tc.fabric
			built := build(t, node, slices.Options{NodeName: tc.node, Partitions: true})
			for name, d := range devices(built.Pools[slices.PoolName(tc.node)]) {
				got, want := "", tc.want
				if a, ok := d.Attributes[slices.AttributeNVLinkDomain]; ok {
					got = *a.StringValue
				}
				if name != node.GPUs[0].DeviceName() {
					want = ""
				}
				if got != want {
					t.Errorf("%s has %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestBuildIsDeterministic also asks that neither the order of the arguments nor
// a caller who changes the result matters: the publisher rounds times in place.
func TestBuildIsDeterministic(t *testing.T) {
	node := server(t, "dgx-h100")
	opts := partitions
	opts.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{node.GPUs[2].PCI: {{Key: "cleave.dev/unhealthy", Effect: resourceapi.DeviceTaintEffectNone}}}
	want := build(t, node, opts)
	reversed := server(t, "dgx-h100")
	for i := range len(reversed.GPUs) / 2 {
		j := len(reversed.GPUs) - 1 - i
		reversed.GPUs[i], reversed.GPUs[j] = reversed.GPUs[j], reversed.GPUs[i]
	}
	other := build(t, reversed, opts)
	if diff := cmp.Diff(want, other); diff != "" {
		t.Errorf("GPUs in another order (-want +got):\n%s", diff)
	}
	for _, s := range pool(t, other).Slices {
		for i := range s.Devices {
			s.Devices[i].Name = "changed"
			for j := range s.Devices[i].Taints {
				s.Devices[i].Taints[j].Key = "changed"
			}
		}
	}
	if diff := cmp.Diff(want, build(t, node, opts)); diff != "" {
		t.Errorf("after the result was changed (-want +got):\n%s", diff)
	}
}

func devices(p resourceslice.Pool) map[string]resourceapi.Device {
	out := map[string]resourceapi.Device{}
	for _, s := range p.Slices {
		for _, d := range s.Devices {
			out[d.Name] = d
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }
