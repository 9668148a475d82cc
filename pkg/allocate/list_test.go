package allocate_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// socket is one socket of a DGX A100, which has four NUMA nodes: two GPUs on node 5, and
// the storage NIC on node 4.
func socket(t *testing.T) hardware.Node {
	t.Helper()
	s, _, err := catalog.LoadServer("dgx-a100")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Node()
	n.GPUs, n.NICs = n.GPUs[6:], n.NICs[len(n.NICs)-1:]
	if *n.GPUs[0].NUMANode != 5 || *n.NICs[0].NUMANode != 4 {
		t.Fatalf("the server has changed: GPU on node %d, NIC on node %d", *n.GPUs[0].NUMANode, *n.NICs[0].NUMANode)
	}
	return n
}

// TestLists: with lists a GPU and a NIC on different NUMA nodes of one socket match. Only
// the experimental allocator, which a scheduler with the feature has, can compare lists;
// the other one refuses, it does not guess. A list and a single value match like two
// lists.
func TestLists(t *testing.T) {
	matched := claim(slices.TypeGPU, 1)
	matched.Spec.Devices.Requests = append(matched.Spec.Devices.Requests, claim(slices.TypeNIC, 1).Spec.Devices.Requests[0])
	matched.Spec.Devices.Requests[1].Name = "nic"
	numa := resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributeNUMANode)
	matched.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &numa}}
	both, refused := []string{"gpu-0000-bd-00-0", "nic-0000-e1-00-0"}, []string(nil)
	tests := map[string]struct {
		lists  bool
		change func(*hardware.Node)
		want   map[string][]string // by allocator
	}{
		"node against node": {want: map[string][]string{"incubating": refused, "experimental": refused}},
		"list against list": {lists: true, want: map[string][]string{"incubating": refused, "experimental": both}},
		"list against a node in it": {lists: true, change: func(n *hardware.Node) { n.NICs[0].NUMANear = nil },
			want: map[string][]string{"incubating": refused, "experimental": both}},
		"list against a node that is not in it": {lists: true, change: func(n *hardware.Node) { *n.NICs[0].NUMANode, n.NICs[0].NUMANear = 3, nil },
			want: map[string][]string{"incubating": refused, "experimental": refused}},
		"lists without anything in common": {lists: true, change: func(n *hardware.Node) { *n.NICs[0].NUMANode, n.NICs[0].NUMANear = 0, []int{1, 2, 3} },
			want: map[string][]string{"incubating": refused, "experimental": refused}},
		"equal nodes alone in their sockets": {lists: true, change: func(n *hardware.Node) {
			*n.NICs[0].NUMANode, n.NICs[0].NUMANear, n.GPUs[0].NUMANear, n.GPUs[1].NUMANear = 5, nil, nil, nil
		}, want: map[string][]string{"incubating": both, "experimental": both}},
	}
	for name, tc := range tests {
		for allocator, features := range allocators() {
			t.Run(name+"/"+allocator, func(t *testing.T) {
				hw := socket(t)
				if tc.change != nil {
					tc.change(&hw)
				}
				got := devicesOf(t, nicState(t, hw, slices.Options{Lists: tc.lists}, allocate.Input{Features: features}), matched)
				if diff := cmp.Diff(tc.want[allocator], got); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestListSelectors: includes() finds a device by any of its NUMA nodes, whether it has a
// list or one; == does not look into lists.
func TestListSelectors(t *testing.T) {
	const numa = `device.attributes["resource.kubernetes.io"].numaNode`
	nic, none := []string{"nic-0000-e1-00-0"}, []string(nil)
	tests := map[string]struct {
		expression   string
		list, single []string
	}{
		"its own":                  {numa + `.includes(4)`, nic, nic},
		"one as good":              {numa + `.includes(6)`, nic, none},
		"of the other socket":      {numa + `.includes(3)`, none, none},
		"equal":                    {numa + ` == 4`, none, nic},
		"its own, list or not":     {`(type(` + numa + `) == list ? ` + numa + `[0] : ` + numa + `) == 4`, nic, nic},
		"its own, not one as good": {`(type(` + numa + `) == list ? ` + numa + `[0] : ` + numa + `) == 6`, none, none},
	}
	for name, tc := range tests {
		for kind, want := range map[string][]string{"list": tc.list, "single": tc.single} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				c := claim(slices.TypeNIC, 1)
				c.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: tc.expression}}}
				s := nicState(t, socket(t), slices.Options{Lists: kind == "list"}, allocate.Input{Features: allocate.AllFeatures()})
				if diff := cmp.Diff(want, devicesOf(t, s, c)); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// devicesOf are those that a claim is given, nil if it is refused.
func devicesOf(t *testing.T, s *allocate.State, c *resourceapi.ResourceClaim) []string {
	t.Helper()
	results, err := s.Allocate(t.Context(), node, c)
	if err != nil && !errors.Is(err, allocate.ErrNoFit) {
		t.Fatal(err)
	}
	var names []string
	for _, result := range results {
		for _, r := range result.Devices.Results {
			names = append(names, r.Device)
		}
	}
	return names
}
