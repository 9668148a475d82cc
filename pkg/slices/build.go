// Package slices builds what a node publishes: the pool of ResourceSlices that
// describes its GPUs and their MIG slices. It is the only builder of that pool,
// and pure: equal arguments give equal results.
package slices

import (
	"cmp"
	"errors"
	"fmt"
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Options is what shapes the pool besides the hardware.
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
	// Held names the devices that claims hold. A pool that lacks one of them
	// while its GPU is still there does not build: the scheduler would no longer
	// see what the device consumes and would give it away once more. The order
	// does not follow it.
	Held []string
}

// PoolName is the name of a node's pool of GPUs.
func PoolName(nodeName string) string { return nodeName + "/gpu" }

// Build returns the node's pool. The counter sets come first, in slices of their
// own, then the devices in the order in which the scheduler, which takes the
// first that fits, is to use them; see devices.
//
// A figure of the hardware that cannot be published is left out. What would make
// the API server or the scheduler refuse the pool is an error, which lists all
// problems; the result is then empty.
func Build(node hardware.Node, opts Options) (resourceslice.DriverResources, error) {
	b := newBuilder(node, opts)
	pool := resourceslice.Pool{Slices: counterSlices(b.counterSets())}
	for _, group := range b.devices() {
		pool.Slices = append(pool.Slices, deviceSlices(group)...)
	}
	if len(pool.Slices) == 0 {
		// An empty pool says that the driver runs and the node has no GPU.
		pool.Slices = []resourceslice.Slice{{}}
	}
	name := PoolName(opts.NodeName)
	if err := errors.Join(checkPool(name, pool), b.checkHeld(pool)); err != nil {
		return resourceslice.DriverResources{}, fmt.Errorf("build pool %s: %w", name, err)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{name: pool}}, nil
}

// builder has what is derived once from the arguments.
type builder struct {
	node hardware.Node
	opts Options
	gpus []gpu
}

// gpu is a GPU with what is published of its MIG capability.
type gpu struct {
	hardware.GPU
	// whole is false for a GPU that is in MIG mode and stays so.
	whole bool
	// profiles is empty for a GPU that is only published whole. That is decided
	// per GPU: one that cannot do MIG gets no counter set, since an empty one
	// would make the API server refuse the whole slice.
	profiles []mig.Profile
	counters mig.Counters
}

func newBuilder(node hardware.Node, opts Options) *builder {
	b := &builder{node: node, opts: opts}
	for _, g := range node.GPUs {
		b.gpus = append(b.gpus, offer(g, opts.Partitions))
	}
	stdslices.SortStableFunc(b.gpus, func(x, y gpu) int { return cmp.Compare(x.PCI, y.PCI) })
	return b
}

// offer decides what is published of a GPU: where its MIG mode cannot be changed
// without a reset, only what the present mode allows.
func offer(g hardware.GPU, partitions bool) gpu {
	out := gpu{GPU: g, whole: true}
	if g.MIG == nil || mig.MemorySlices(g.MIG.Profiles) == 0 {
		return out
	}
	out.whole = g.MIG.Switchable || !g.MIG.Enabled
	if partitions && (g.MIG.Switchable || g.MIG.Enabled) {
		out.profiles = g.MIG.Profiles
		out.counters = mig.NewCounters(g.MIG.Profiles)
	}
	return out
}

// counterSets is one set per GPU that is published in parts.
func (b *builder) counterSets() []resourceapi.CounterSet {
	var out []resourceapi.CounterSet
	for _, g := range b.gpus {
		if len(g.profiles) > 0 {
			out = append(out, resourceapi.CounterSet{Name: g.DeviceName(), Counters: counters(g.counters.Total)})
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
