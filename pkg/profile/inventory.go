package profile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Inventory is what a cluster offers, as far as it decides how a profile is rendered.
// Equal clusters have equal inventories, so whoever renders can tell by comparing them
// whether there is anything to do.
type Inventory struct {
	// Classes are the names of the DeviceClasses, in order.
	Classes []string
	// Nodes are the kinds of nodes: those that offer the same are one.
	Nodes []Node
}

// Node is what each of a number of nodes offers, whether or not claims hold it.
type Node struct {
	// GPUs are those that can be had whole.
	GPUs []Stock[GPU]
	// Slices are the MIG slices of each profile, as if there were no other profile.
	Slices []Stock[Slice]
	NICs   []Stock[NIC]
	Pairs  []Stock[Pair]
}

// Stock is how many devices of a kind a node has.
type Stock[K comparable] struct {
	Kind K
	// Count is how many can be had at once, Devices how many there are to choose from.
	Count, Devices int
}

// GPU is a kind of GPU.
type GPU struct {
	// Model is the product name, Architecture that of the generation.
	Model, Architecture string
	// Memory is in bytes.
	Memory int64
	// NVLink tells that it says which NVLink domain it is in.
	NVLink bool
}

// Slice is a kind of MIG slice. Its GPU's memory is the slice's.
type Slice struct {
	GPU
	Profile string
}

// NIC is a kind of NIC.
type NIC struct {
	// Bandwidth is in bit/s.
	Bandwidth int64
	LinkLayer string
	// Rail tells that it has one, and so that it is near GPUs.
	Rail bool
	// Shared tells that several claims can have a share of it.
	Shared bool
}

// Pair is a kind of GPU with a kind of NIC near it.
type Pair struct {
	GPU GPU
	NIC NIC
	// Device tells that the pair is a device, not only two that are near each other.
	Device bool
}

// The names under which package slices publishes what is read here.
const (
	attributeType         resourceapi.QualifiedName = "type"
	attributeProductName  resourceapi.QualifiedName = "productName"
	attributeArchitecture resourceapi.QualifiedName = "architecture"
	attributeProfile      resourceapi.QualifiedName = "profile"
	attributeUUID         resourceapi.QualifiedName = "uuid"
	attributeParentUUID   resourceapi.QualifiedName = "parentUUID"
	attributeNVLinkDomain resourceapi.QualifiedName = "nvlinkDomain"
	attributePCIeSwitch   resourceapi.QualifiedName = "pcieSwitch"
	attributeLinkLayer    resourceapi.QualifiedName = "linkLayer"
	attributeRail         resourceapi.QualifiedName = "rail"
	attributeNICBusID     resourceapi.QualifiedName = "nicPCIBusID"
	capacityMemory        resourceapi.QualifiedName = "memory"
	capacityBandwidth     resourceapi.QualifiedName = "bandwidth"
)

// The kinds of devices, as the attribute type names them.
const (
	kindGPU  = "gpu"
	kindMIG  = "mig"
	kindNIC  = "nic"
	kindPair = "gpu-nic"
)

// Summarize makes the inventory of a cluster from its ResourceSlices, of all drivers and
// in any order, and its DeviceClasses.
func Summarize(driver string, published []*resourceapi.ResourceSlice, classes []*resourceapi.DeviceClass) Inventory {
	var inv Inventory
	for _, class := range classes {
		inv.Classes = append(inv.Classes, class.Name)
	}
	slices.Sort(inv.Classes)
	generation := map[string]int64{}
	for _, s := range published {
		if s.Spec.Driver == driver {
			generation[s.Spec.Pool.Name] = max(generation[s.Spec.Pool.Name], s.Spec.Pool.Generation)
		}
	}
	nodes := map[string]*tally{}
	for _, s := range published {
		if s.Spec.Driver != driver || s.Spec.Pool.Generation < generation[s.Spec.Pool.Name] {
			continue
		}
		name := ptr.Deref(s.Spec.NodeName, "")
		if nodes[name] == nil {
			nodes[name] = newTally()
		}
		for i := range s.Spec.Devices {
			nodes[name].device(&s.Spec.Devices[i])
		}
	}
	for _, t := range nodes {
		node := t.node()
		if !slices.ContainsFunc(inv.Nodes, func(other Node) bool { return reflect.DeepEqual(node, other) }) {
			inv.Nodes = append(inv.Nodes, node)
		}
	}
	slices.SortFunc(inv.Nodes, func(a, b Node) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return inv
}

// tally counts the devices of one node.
type tally struct {
	gpus   map[GPU]int
	slices map[Slice]int
	nics   map[NIC]int
	// parents are the GPUs that offer a slice.
	parents map[Slice]map[string]bool
	// pairDevices are pairs that are devices, with the GPUs and the NICs in them.
	pairDevices map[Pair]int
	pairGPU     map[Pair]map[string]bool
	pairNIC     map[Pair]map[string]bool
	// gpusAt and nicsAt are those at each PCIe switch.
	gpusAt map[string]map[GPU]int
	nicsAt map[string]map[NIC]int
}

func newTally() *tally {
	return &tally{
		gpus: map[GPU]int{}, slices: map[Slice]int{}, nics: map[NIC]int{},
		parents: map[Slice]map[string]bool{}, pairDevices: map[Pair]int{}, pairGPU: map[Pair]map[string]bool{}, pairNIC: map[Pair]map[string]bool{},
		gpusAt: map[string]map[GPU]int{}, nicsAt: map[string]map[NIC]int{},
	}
}

func (t *tally) device(d *resourceapi.Device) {
	gpu := GPU{
		Model: text(d, attributeProductName), Architecture: text(d, attributeArchitecture),
		Memory: amount(d, capacityMemory), NVLink: text(d, attributeNVLinkDomain) != "",
	}
	_, rail := d.Attributes[attributeRail]
	nic := NIC{
		Bandwidth: amount(d, capacityBandwidth), LinkLayer: text(d, attributeLinkLayer),
		Rail: rail, Shared: ptr.Deref(d.AllowMultipleAllocations, false),
	}
	at := text(d, attributePCIeSwitch)
	switch text(d, attributeType) {
	case kindGPU:
		t.gpus[gpu]++
		add(t.gpusAt, at, gpu)
	case kindMIG:
		s := Slice{GPU: gpu, Profile: text(d, attributeProfile)}
		t.slices[s]++
		mark(t.parents, s, text(d, attributeParentUUID))
	case kindNIC:
		t.nics[nic]++
		add(t.nicsAt, at, nic)
	case kindPair:
		p := Pair{GPU: gpu, NIC: nic, Device: true}
		t.pairDevices[p]++
		mark(t.pairGPU, p, text(d, attributeUUID))
		mark(t.pairNIC, p, text(d, attributeNICBusID))
	}
}

func (t *tally) node() Node {
	return Node{GPUs: stock(t.gpus, nil), Slices: stock(t.slices, t.slicesAtOnce), NICs: stock(t.nics, nil), Pairs: t.pairs()}
}

// slicesAtOnce knows that each GPU has one set of extra media engines, whatever the
// placement. All other profiles have placements that do not overlap.
func (t *tally) slicesAtOnce(s Slice) int {
	if strings.Contains(s.Profile, "+me") {
		return len(t.parents[s])
	}
	return t.slices[s]
}

// pairs are those that are devices or, on a node without any, GPUs and NICs that are
// behind the same PCIe switch.
func (t *tally) pairs() []Stock[Pair] {
	pairs := map[Pair]int{}
	for at, gpus := range t.gpusAt {
		for gpu, n := range gpus {
			for nic, m := range t.nicsAt[at] {
				pairs[Pair{GPU: gpu, NIC: nic}] += min(n, m)
			}
		}
	}
	if len(t.pairDevices) == 0 {
		return stock(pairs, nil)
	}
	return stock(t.pairDevices, func(p Pair) int { return min(len(t.pairGPU[p]), len(t.pairNIC[p])) })
}

func add[K comparable](all map[string]map[K]int, at string, kind K) {
	if at == "" {
		return // nobody knows where it is
	}
	if all[at] == nil {
		all[at] = map[K]int{}
	}
	all[at][kind]++
}

func mark[K comparable](all map[K]map[string]bool, kind K, id string) {
	if all[kind] == nil {
		all[kind] = map[string]bool{}
	}
	all[kind][id] = true
}

// stock lists what was counted; atOnce is nil if all of it can be had.
func stock[K comparable](devices map[K]int, atOnce func(K) int) []Stock[K] {
	var out []Stock[K]
	for kind, n := range devices {
		s := Stock[K]{Kind: kind, Count: n, Devices: n}
		if atOnce != nil {
			s.Count = atOnce(kind)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Stock[K]) int { return cmp.Compare(fmt.Sprint(a.Kind), fmt.Sprint(b.Kind)) })
	return out
}

func text(d *resourceapi.Device, name resourceapi.QualifiedName) string {
	return ptr.Deref(d.Attributes[name].StringValue, "")
}

func amount(d *resourceapi.Device, name resourceapi.QualifiedName) int64 {
	value := d.Capacity[name].Value
	return value.Value()
}
