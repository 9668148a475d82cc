package allocate_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// twins are two GPUs that cannot do MIG, each behind a switch with a NIC of its own.
func twins() hardware.Node {
	var n hardware.Node
	for i := range 2 {
		at := func(bus, device int) hardware.PCIAddress {
			return hardware.PCIAddress(fmt.Sprintf("0000:%d%d:%02x.0", i+1, bus, device))
		}
		n.GPUs = append(n.GPUs, hardware.GPU{PCI: at(8, 0), UUID: fmt.Sprint(i), Bridges: []hardware.PCIAddress{at(0, 1), at(1, 0), at(2, 8)}})
		n.NICs = append(n.NICs, hardware.NIC{
			PCI: at(3, 0), Bridges: []hardware.PCIAddress{at(0, 1), at(1, 0), at(2, 0)},
			RDMA: []hardware.RDMADevice{{Name: fmt.Sprintf("mlx5_%d", i), Ports: []hardware.RDMAPort{{Number: 1, State: hardware.PortActive, BitsPerSecond: 400e9}}}},
		})
	}
	return n
}

func nicState(t *testing.T, node hardware.Node, opts slices.Options, features allocate.Input) *allocate.State {
	t.Helper()
	opts.NodeName, opts.Partitions = "worker-1", true
	resources, err := slices.Build(node, opts)
	if err != nil {
		t.Fatal(err)
	}
	in := features
	in.Slices = allocate.Published(driver, "worker-1", resources)
	for _, kind := range []string{slices.TypeGPU, slices.TypeNIC, slices.TypePair} {
		in.Classes = append(in.Classes, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: kind},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].type == %q", driver, kind),
			}}}},
		})
	}
	s, err := allocate.New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBandwidth: claims share a NIC up to its bandwidth, in whole gigabits; one that
// does not say how much takes all.
func TestBandwidth(t *testing.T) {
	type ask struct {
		gigabits string // "" for a claim that does not say
		want     string // what is taken, "" if nothing is left
	}
	tests := map[string][]ask{
		"four quarters":        {{"100G", "100G"}, {"100G", "100G"}, {"100G", "100G"}, {"100G", "100G"}, {"1G", ""}},
		"all by default":       {{"", "400G"}, {"1G", ""}},
		"nothing left for all": {{"1G", "1G"}, {"", ""}, {"399G", "399G"}},
		"rounded up":           {{"1500M", "2G"}, {"1", "1G"}, {"398G", ""}, {"397G", "397G"}},
		"more than there is":   {{"401G", ""}},
		"two halves and a bit": {{"200G", "200G"}, {"200G", "200G"}, {"1", ""}},
	}
	for allocator, features := range allocators() {
		for name, asks := range tests {
			t.Run(allocator+"/"+name, func(t *testing.T) {
				hw := twins()
				hw.NICs = hw.NICs[:1]
				s := nicState(t, hw, slices.Options{NICSharing: slices.NICByBandwidth}, allocate.Input{Features: features})
				for i, a := range asks {
					c := claim(slices.TypeNIC, 1)
					if a.gigabits != "" {
						c.Spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{
							Requests: map[resourceapi.QualifiedName]resource.Quantity{slices.CapacityBandwidth: resource.MustParse(a.gigabits)},
						}
					}
					results, err := s.Allocate(t.Context(), node, c)
					if err != nil && !errors.Is(err, allocate.ErrNoFit) {
						t.Fatal(err)
					}
					got := ""
					if err == nil {
						r := results[0].Devices.Results[0]
						q := r.ConsumedCapacity[slices.CapacityBandwidth]
						got = q.String()
						if r.ShareID == nil {
							t.Error("no share ID, so it would be held alone")
						}
						s.Hold(types.UID(fmt.Sprint(i)), results[0])
					}
					if got != a.want {
						t.Errorf("ask %d, for %q: got %q, want %q", i, a.gigabits, got, a.want)
					}
				}
			})
		}
	}
}

// TestPairs: pairs, GPUs and NICs come out of one stock, and constraints find what
// belongs together where there are no pairs.
func TestPairs(t *testing.T) {
	matched := claim(slices.TypeGPU, 1)
	matched.Spec.Devices.Requests = append(matched.Spec.Devices.Requests, claim(slices.TypeNIC, 1).Spec.Devices.Requests[0])
	matched.Spec.Devices.Requests[1].Name = "nic"
	attribute := resourceapi.FullyQualifiedName(driver + "/" + string(slices.AttributePCIeSwitch))
	matched.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	tests := map[string]struct {
		pairs  bool
		claims []*resourceapi.ResourceClaim
		want   [][]string // nil for a claim that is refused
	}{
		"both pairs": {pairs: true, claims: []*resourceapi.ResourceClaim{claim(slices.TypePair, 2), claim(slices.TypeGPU, 1), claim(slices.TypeNIC, 1)},
			want: [][]string{{"gpu-0000-28-00-0-nic-0000-23-00-0", "gpu-0000-18-00-0-nic-0000-13-00-0"}, nil, nil}},
		"a pair beside a GPU": {pairs: true, claims: []*resourceapi.ResourceClaim{claim(slices.TypeGPU, 1), claim(slices.TypePair, 1), claim(slices.TypePair, 1), claim(slices.TypeNIC, 1)},
			want: [][]string{{"gpu-0000-28-00-0"}, {"gpu-0000-18-00-0-nic-0000-13-00-0"}, nil, {"nic-0000-23-00-0"}}},
		"a pair beside a NIC": {pairs: true, claims: []*resourceapi.ResourceClaim{claim(slices.TypeNIC, 1), claim(slices.TypePair, 1), claim(slices.TypeNIC, 1), claim(slices.TypeGPU, 1)},
			want: [][]string{{"nic-0000-23-00-0"}, {"gpu-0000-18-00-0-nic-0000-13-00-0"}, nil, {"gpu-0000-28-00-0"}}},
		"by constraint": {claims: []*resourceapi.ResourceClaim{claim(slices.TypeNIC, 1), matched, matched},
			want: [][]string{{"nic-0000-23-00-0"}, {"gpu-0000-18-00-0", "nic-0000-13-00-0"}, nil}},
		"by constraint, with pairs": {pairs: true, claims: []*resourceapi.ResourceClaim{claim(slices.TypePair, 1), matched, matched},
			want: [][]string{{"gpu-0000-28-00-0-nic-0000-23-00-0"}, {"gpu-0000-18-00-0", "nic-0000-13-00-0"}, nil}},
		"no pairs": {claims: []*resourceapi.ResourceClaim{claim(slices.TypePair, 1)}, want: [][]string{nil}},
	}
	for allocator, features := range allocators() {
		for name, tc := range tests {
			t.Run(allocator+"/"+name, func(t *testing.T) {
				s := nicState(t, twins(), slices.Options{Pairs: tc.pairs}, allocate.Input{Features: features})
				var got [][]string
				for i, c := range tc.claims {
					results, err := s.Allocate(t.Context(), node, c)
					if err != nil && !errors.Is(err, allocate.ErrNoFit) {
						t.Fatal(err)
					}
					var names []string
					for _, result := range results {
						for _, r := range result.Devices.Results {
							names = append(names, r.Device)
						}
						s.Hold(types.UID(fmt.Sprint(i)), result)
					}
					got = append(got, names)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
			})
		}
	}
}
