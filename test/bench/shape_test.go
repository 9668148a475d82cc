package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/profile"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// shape is a form of claim that profiles are rendered into, on nodes with eight H100.
type shape struct {
	// profile is a spec as a user writes it.
	profile string
	// fits is what other claims hold of each node so that it just fits, short so that it
	// just does not. Half of each node is held where it can fit into the other half.
	fits, short held
	// pairs publishes pairs; perSwitch is how many GPUs and NICs are at each switch.
	pairs     bool
	perSwitch int
	// check looks at what was given where it fits.
	check func(given given) error
}

// held is what claims hold of a node: the last so many GPUs, NICs near GPUs and NICs for
// storage, and MIG slices, as "1g.10gb@6", on each GPU that is not held whole or on the
// first only.
type held struct {
	gpus, nics, storage int
	each, first         []string
}

func shapes() map[string]shape {
	half := held{gpus: 4, nics: 4}
	all := map[string]shape{
		"gpus": {profile: `{groups: [{name: g, count: 4, gpu: {model: H100, memory: 70Gi}}]}`,
			fits: half, short: held{gpus: 4, nics: 4, first: []string{"1g.10gb@6"}}},
		"all-gpus": {profile: `{groups: [{name: g, count: 8, gpu: {model: H100}}]}`,
			short: held{first: []string{"1g.10gb@6"}}},
		"gpus-of-a-domain": {profile: `{groups: [{name: g, count: 4, gpu: {}}], constraints: [{match: NVLinkDomain}]}`,
			fits: half, short: held{gpus: 4, first: []string{"1g.10gb@6"}}},
		"one-slice": {profile: `{groups: [{name: s, mig: {profile: 1g.10gb}}]}`,
			fits: held{gpus: 7, first: slots("1g.10gb", 0, 6)}, short: held{gpus: 7, first: slots("1g.10gb", 0, 7)}},
		"seven-slices": {profile: `{groups: [{name: s, count: 7, mig: {profile: 1g.10gb}}]}`,
			fits: held{gpus: 7}, short: held{gpus: 7, first: []string{"1g.10gb@6"}}},
		"slices-by-memory": {profile: `{groups: [{name: s, count: 8, mig: {memory: 15Gi}}]}`,
			fits:  held{gpus: 4, each: []string{"4g.40gb@0"}},
			short: held{gpus: 4, each: []string{"4g.40gb@0"}, first: []string{"1g.10gb@6"}}},
		"slices-of-one-gpu": {profile: `{groups: [{name: s, count: 4, mig: {profile: 1g.10gb}}], constraints: [{match: ParentGPU}]}`,
			fits: half, short: held{each: []string{"4g.40gb@0"}}, check: given.oneGPU},
		"large-and-small-of-one-gpu": {profile: `{groups: [{name: s, count: 2, mig: {profile: 1g.10gb}}, {name: b, mig: {profile: 3g.40gb}}], constraints: [{match: ParentGPU}]}`,
			fits: half, short: held{gpus: 4, each: []string{"3g.40gb@4"}}, check: given.oneGPU},
		"nics": {profile: `{groups: [{name: nics, count: 2, nic: {linkLayer: Ethernet, bandwidth: 400G}}]}`,
			fits: half, short: held{gpus: 4, nics: 4, storage: 1}},
		"gpus-and-nics": {profile: `{groups: [{name: nics, count: 3, nic: {linkLayer: InfiniBand}}, {name: g, count: 3, gpu: {}}]}`,
			fits: held{nics: 5}, short: held{nics: 6}},
		"whole-node": {profile: `{groups: [{name: nics, wholeNode: true, gpuWithNIC: {model: H100, bandwidth: 400G}}]}`,
			short: held{nics: 1}, check: given.wholeNode},
		"whole-node-and-storage": {profile: `{groups: [{name: storage, nic: {linkLayer: Ethernet}}, {name: node, wholeNode: true, gpuWithNIC: {linkLayer: InfiniBand}}]}`,
			short: held{nics: 1}},
		"whole-node-but-storage": {profile: `{groups: [{name: storage, nic: {linkLayer: Ethernet}}, {name: node, wholeNode: true, gpuWithNIC: {linkLayer: InfiniBand}}]}`,
			short: held{storage: 2}},
		"whole-node-gpus": {profile: `{groups: [{name: nics, wholeNode: true, gpu: {}}]}`,
			short: held{first: []string{"1g.10gb@6"}}},
		"whole-node-half-full": {profile: `{groups: [{name: nics, wholeNode: true, gpuWithNIC: {model: H100, bandwidth: 400G}}]}`,
			short: half, check: given.wholeNode},
		"alternatives": {profile: `{groups: [{name: g, firstAvailable: [{gpu: {model: H100}}, {count: 2, mig: {profile: 3g.40gb}}, {gpu: {model: A100}}]}]}`,
			fits:  held{gpus: 4, each: []string{"1g.10gb@0"}},
			short: held{gpus: 5, each: []string{"1g.10gb@0", "1g.10gb@4"}}, check: given.twoHalves},
		"alternatives-of-pairs": {pairs: true, profile: `{groups: [{name: p, firstAvailable: [{count: 4, gpuWithNIC: {model: H100}}, {count: 2, gpuWithNIC: {}}]}]}`,
			fits: held{gpus: 4, nics: 6}, short: held{gpus: 4, nics: 7}, check: given.near},
		"mixed": {profile: `{groups: [{name: s, count: 2, mig: {profile: 1g.10gb}}, {name: b, mig: {profile: 3g.40gb}}, {name: g, gpu: {}}, {name: nics, nic: {linkLayer: Ethernet}}]}`,
			fits: held{gpus: 6}, short: held{gpus: 6, first: slots("1g.10gb", 0, 3)}},
	}
	for name, perSwitch := range map[string]int{"8x1": 1, "4x2": 2} {
		of := func(n int) string {
			return fmt.Sprintf(`{groups: [{name: p, count: %d, gpuWithNIC: {model: H100, bandwidth: 400G}}]}`, n)
		}
		all["pairs-"+name] = shape{pairs: true, perSwitch: perSwitch, profile: of(4),
			fits: half, short: held{gpus: 4, nics: 5}, check: given.near}
		all["all-pairs-"+name] = shape{pairs: true, perSwitch: perSwitch, profile: of(8),
			short: held{nics: 1}, check: given.near}
		all["matched-pairs-"+name] = shape{perSwitch: perSwitch, profile: of(4),
			fits: half, short: held{gpus: 4, nics: 5}, check: given.near}
		all["matched-pairs-few-nics-"+name] = shape{perSwitch: perSwitch, profile: of(4),
			fits: held{nics: 4}, short: held{nics: 5}, check: given.near}
		all["matched-pairs-few-gpus-"+name] = shape{perSwitch: perSwitch, profile: of(4),
			fits: held{gpus: 4}, short: held{gpus: 5}, check: given.near}
	}
	return all
}

// slots are slices of a profile at the starts from one to before another.
func slots(profile string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s@%d", profile, i))
	}
	return out
}

// hardware of the shape's nodes.
func (s shape) node(t testing.TB) hardware.Node {
	t.Helper()
	hw := trainingNode(t, max(s.perSwitch, 1))
	for i := range hw.GPUs {
		hw.GPUs[i].NVLink = &hardware.NVLinkFabric{Cluster: "00000000-0000-0000-0000-00000000d6c4", Clique: 1}
	}
	return hw
}

// claim renders the profile for what the nodes publish.
func (s shape) claim(t testing.TB, hw hardware.Node) *resourceapi.ResourceClaim {
	t.Helper()
	var spec v1alpha1.ClaimProfileSpec
	if err := yaml.UnmarshalStrict([]byte(s.profile), &spec); err != nil {
		t.Fatal(err)
	}
	rendered, err := profile.Render(spec, profile.Summarize(driverName, s.published(t, hw, 0), profileClasses()), driverName)
	if err != nil {
		t.Fatal(err)
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "claim"}, Spec: rendered.Spec,
	}
}

func (s shape) published(t testing.TB, hw hardware.Node, i int) []*resourceapi.ResourceSlice {
	t.Helper()
	name := nodeName(i)
	resources, err := publish.Build(hw, publish.Options{
		NodeName: name, Partitions: true, Pairs: s.pairs, Rails: hardware.Rails(hw, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	return allocate.Published(driverName, name, resources)
}

// cluster of equal nodes, of each of which claims hold the same.
func (s shape) cluster(t testing.TB, hw hardware.Node, nodes int, h held) *allocate.State {
	t.Helper()
	in := allocate.Input{Features: allocate.DefaultFeatures(), Classes: profileClasses()}
	for i := range nodes {
		in.Slices = append(in.Slices, s.published(t, hw, i)...)
	}
	state, err := allocate.New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		state.Hold(types.UID(nodeName(i)), s.holding(t, hw, i, h))
	}
	return state
}

func (s shape) holding(t testing.TB, hw hardware.Node, i int, h held) resourceapi.AllocationResult {
	t.Helper()
	var out resourceapi.AllocationResult
	hold := func(pool, device string) {
		out.Devices.Results = append(out.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: driverName, Pool: pool, Device: device,
		})
	}
	gpuPool := publish.PoolName(nodeName(i))
	nicPool := publish.RDMAPoolName(nodeName(i))
	if s.pairs {
		nicPool = gpuPool
	}
	for k, g := range hw.GPUs {
		if k >= len(hw.GPUs)-h.gpus {
			hold(gpuPool, g.DeviceName())
			continue
		}
		at := slices.Clone(h.each)
		if k == 0 {
			at = append(at, h.first...)
		}
		for _, slice := range at {
			hold(gpuPool, partition(t, g, slice))
		}
	}
	for _, n := range slices.Concat(hw.NICs[8-h.nics:8], hw.NICs[10-h.storage:]) {
		hold(nicPool, n.DeviceName())
	}
	return out
}

// partition is the device name of a slice such as "1g.10gb@6".
func partition(t testing.TB, g hardware.GPU, slice string) string {
	t.Helper()
	name, start, _ := strings.Cut(slice, "@")
	for _, p := range g.MIG.Profiles {
		for _, pl := range p.Placements {
			if p.Name == name && strconv.Itoa(pl.Start) == start {
				return g.PartitionName(p, pl)
			}
		}
	}
	t.Fatalf("GPU %s has no %s", g.PCI, slice)
	panic("unreachable")
}

// profileClasses are those of the chart with its default values, as far as the shapes
// need them.
func profileClasses() []*resourceapi.DeviceClass {
	conditions := map[string]string{}
	for class, kind := range map[string]string{"gpu": publish.TypeGPU, "mig": publish.TypeMIG, "rdma": publish.TypeNIC, "gpu-nic": publish.TypePair} {
		conditions[class] = fmt.Sprintf("device.attributes[%q].type == %q", driverName, kind)
	}
	for _, name := range kinds[:5] {
		conditions["mig-"+name] = fmt.Sprintf("device.attributes[%q].?profile.orValue(\"\") == %q", driverName, name)
	}
	var out []*resourceapi.DeviceClass
	for class, condition := range conditions {
		out = append(out, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class + "." + driverName},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q && %s", driverName, condition),
			}}}},
		})
	}
	return out
}
