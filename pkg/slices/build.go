// Package slices builds what a node publishes: the pools of ResourceSlices that
// describe its GPUs, their MIG slices and its NICs. It is the only builder of those
// pools, and pure: equal arguments give equal results.
package slices

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Options is what shapes the pools besides the hardware.
type Options struct {
	// NodeName is the Kubernetes node's; it becomes part of the pool's name.
	NodeName string
	// Partitions publishes MIG slices, with the counters that keep overlapping
	// ones apart. It has to be off where the API server drops counters
	// (feature gate DRAPartitionableDevices): without them MIG slices would look
	// independent of each other. Whole GPUs are then all that is published.
	Partitions bool
	// GPUTaints taint everything that a GPU offers: the GPU and its MIG slices.
	GPUTaints map[hardware.PCIAddress][]resourceapi.DeviceTaint
	// DeviceTaints taint single devices, by name. Taints for devices that are
	// not published are ignored: hardware may vanish while a taint is kept.
	DeviceTaints map[string][]resourceapi.DeviceTaint
	// Existing are the MIG instances that no claim made, by GPU. What overlaps one
	// is tainted with TaintForeignInstance, the whole GPU included.
	Existing map[hardware.PCIAddress][]hardware.Instance
	// ServeExisting offers such instances as they are: the device that is exactly
	// that instance is not tainted.
	ServeExisting bool
	// Taintless leaves taints out, where the API server drops them (feature gate
	// DRADeviceTaints). Devices that would be tainted are left out instead, unless
	// a claim holds them.
	Taintless bool
	// Lists publishes attributes with several values where a device has several. It has to
	// be off where the API server refuses them (feature gate DRAListTypeAttributes).
	Lists bool
	// Held names the devices that claims hold. A pool that lacks one of them
	// while its GPU is still there does not build: the scheduler would no longer
	// see what the device consumes and would give it away once more. The order
	// does not follow it.
	Held []string

	// Pairs publishes each GPU together with each NIC that is nearest to it, as devices
	// of their own (TypePair), and GPUs and NICs in one pool. It does nothing without
	// Partitions: what keeps a pair apart from its GPU and its NIC are counters.
	Pairs bool
	// NICSharing is how claims share a NIC; NICExclusive if empty.
	NICSharing NICSharing
	// Rails is the rail of each NIC that has one.
	Rails map[hardware.PCIAddress]int
	// NICTaints taint everything that a NIC offers: the NIC and its pairs.
	NICTaints map[hardware.PCIAddress][]resourceapi.DeviceTaint
	// BusyNICs are those that claims hold, alone or in a pair. Whole GPUs with a free
	// NIC near them are handed out first, so the order follows it.
	BusyNICs map[hardware.PCIAddress]bool
	// HeldPools is the pool from which each held device was allocated, by the device's
	// name. Like one that is missing, a held device in another pool fails the build.
	HeldPools map[string]string
}

// NICSharing is how claims share a NIC.
type NICSharing string

const (
	// NICExclusive gives a NIC to one claim at a time.
	NICExclusive NICSharing = "none"
	// NICByBandwidth lets claims share a NIC as long as the sum of the bandwidths that
	// they ask for is there. Nothing limits what they really use.
	NICByBandwidth NICSharing = "bandwidth"
)

// PoolName is the name of a node's pool of GPUs, and of NICs where there are pairs.
func PoolName(nodeName string) string { return nodeName + "/gpu" }

// RDMAPoolName is the name of a node's pool of NICs where there are no pairs.
func RDMAPoolName(nodeName string) string { return nodeName + "/rdma" }

// Build returns the node's pools: that of the GPUs, and that of the NICs if there are
// any and they are not in the first. In a pool the counter sets come first, in slices
// of their own, then the devices in the order in which the scheduler, which takes the
// first that fits, is to use them; see devices.
//
// A figure of the hardware that cannot be published is left out. What would make
// the API server or the scheduler refuse a pool is an error, which lists all
// problems; the result is then empty.
func Build(node hardware.Node, opts Options) (resourceslice.DriverResources, error) {
	b := newBuilder(node, opts)
	pool := resourceslice.Pool{Slices: counterSlices(b.counterSets())}
	for _, group := range b.devices() {
		pool.Slices = append(pool.Slices, deviceSlices(group)...)
	}
	pools := map[string]resourceslice.Pool{PoolName(opts.NodeName): pool}
	if nics := deviceSlices(b.nicDevices()); !b.pairs && len(nics) > 0 {
		pools[RDMAPoolName(opts.NodeName)] = resourceslice.Pool{Slices: nics}
	}
	if len(pool.Slices) == 0 {
		// An empty pool says that the driver runs and the node has no GPU.
		pools[PoolName(opts.NodeName)] = resourceslice.Pool{Slices: []resourceslice.Slice{{}}}
	}
	errs := []error{b.checkOptions(), b.checkHeld(pools)}
	for _, name := range stdslices.Sorted(maps.Keys(pools)) {
		if err := checkPool(name, pools[name]); err != nil {
			errs = append(errs, fmt.Errorf("pool %s: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return resourceslice.DriverResources{}, fmt.Errorf("build the pools of node %s: %w", opts.NodeName, err)
	}
	return resourceslice.DriverResources{Pools: pools}, nil
}

// builder has what is derived once from the arguments.
type builder struct {
	node hardware.Node
	opts Options
	gpus []gpu
	nics []hardware.NIC
	// pairs tells that there are pairs, so that everything has counters and is in one
	// pool.
	pairs bool
}

// gpu is a GPU with what is published of its MIG capability.
type gpu struct {
	hardware.GPU
	// whole is false for a GPU that is in MIG mode and stays so.
	whole bool
	// profiles is empty for a GPU that is only published whole. That is decided
	// per GPU.
	profiles []mig.Profile
	// counters are none for a GPU that is published whole and in no pair: it gets no
	// counter set, since an empty one would make the API server refuse the slice.
	counters mig.Counters
	// near are the NICs that are nearest to it, if they are near.
	near []hardware.NIC
}

func newBuilder(node hardware.Node, opts Options) *builder {
	b := &builder{node: node, opts: opts, pairs: opts.Pairs && opts.Partitions}
	for _, g := range node.GPUs {
		b.gpus = append(b.gpus, b.offer(g))
	}
	stdslices.SortStableFunc(b.gpus, func(x, y gpu) int { return cmp.Compare(x.PCI, y.PCI) })
	b.nics = stdslices.Clone(node.NICs)
	stdslices.SortStableFunc(b.nics, func(x, y hardware.NIC) int { return cmp.Compare(x.PCI, y.PCI) })
	for i, g := range b.gpus {
		b.gpus[i].near = nearest(g.GPU, b.nics)
	}
	return b
}

// offer decides what is published of a GPU: where its MIG mode cannot be changed
// without a reset, only what the present mode allows.
func (b *builder) offer(g hardware.GPU) gpu {
	out := gpu{GPU: g, whole: true}
	if g.MIG != nil && mig.MemorySlices(g.MIG.Profiles) > 0 {
		out.whole = g.MIG.Switchable || !g.MIG.Enabled
		if b.opts.Partitions && (g.MIG.Switchable || g.MIG.Enabled) {
			out.profiles = g.MIG.Profiles
			out.counters = mig.NewCounters(g.MIG.Profiles)
		}
	}
	if b.pairs && len(out.profiles) == 0 {
		out.counters.Total = map[string]int64{counterGPU: 1}
	}
	return out
}

// counterSets is one set per GPU that is published in parts or in pairs, and with
// pairs one per NIC.
func (b *builder) counterSets() []resourceapi.CounterSet {
	var out []resourceapi.CounterSet
	for _, g := range b.gpus {
		if len(g.counters.Total) > 0 {
			out = append(out, resourceapi.CounterSet{Name: g.DeviceName(), Counters: counters(g.counters.Total)})
		}
	}
	for _, n := range b.nics {
		if b.pairs {
			out = append(out, resourceapi.CounterSet{Name: n.DeviceName(), Counters: counters(nicCounters())})
		}
	}
	return out
}

// counterSlices puts counter sets into slices. A slice may not hold devices too.
func counterSlices(sets []resourceapi.CounterSet) []resourceslice.Slice {
	var out []resourceslice.Slice
	for chunk := range stdslices.Chunk(sets, resourceapi.ResourceSliceMaxCounterSets) {
		out = append(out, resourceslice.Slice{SharedCounters: chunk})
	}
	return out
}

// deviceSlices puts devices into slices. The lower of the API's two limits is
// used even where no device consumes counters, so that a later taint, which is
// what lowers the limit, never makes an accepted pool invalid.
func deviceSlices(devices []resourceapi.Device) []resourceslice.Slice {
	var out []resourceslice.Slice
	for chunk := range stdslices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		out = append(out, resourceslice.Slice{Devices: chunk})
	}
	return out
}
