package slices

import (
	"cmp"
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// devices returns the devices in groups that go into slices of their own, all in
// the order in which they are best handed out. The scheduler goes through a pool
// in this order and takes the first device that fits, so this is policy:
//
//   - Whole GPUs, from the last one backwards, while MIG slices are taken from
//     the front: the two meet as late as possible. Those with a free NIC near them
//     come before all others: a claim that wants both, the NIC near if possible, is
//     given the first GPU and then the NIC that is nearest to that one.
//   - GPUs with a NIC, where those are published as pairs; see pairDevices.
//   - Then one group per profile size (mig.Group). Within a group profile by
//     profile, the smaller first, so that a request by memory alone wastes least;
//     for each profile GPU by GPU, so that one GPU fills up before the next is
//     broken into; on each GPU the start that spoils the fewest others first
//     (mig.Starts). The other way round, start by start across all GPUs, would
//     break into every GPU at once.
//   - NICs last, where they are in this pool; see nicDevices.
func (b *builder) devices() [][]resourceapi.Device {
	groups := make([][]resourceapi.Device, 2+mig.Groups+1)
	for _, g := range b.wholes() {
		groups[0] = b.add(groups[0], b.whole(g))
	}
	if b.pairs {
		groups[1] = b.pairDevices()
		groups[2+mig.Groups] = b.nicDevices()
	}
	for _, rank := range b.ranks() {
		for _, g := range b.gpus {
			for _, p := range g.profiles {
				if rankOf(p) != rank {
					continue
				}
				i := 2 + mig.Group(p, g.profiles)
				for _, pl := range mig.Starts(p, g.profiles) {
					groups[i] = b.add(groups[i], b.partition(g, p, pl))
				}
			}
		}
	}
	return groups
}

// wholes are the GPUs that can be had whole, in order.
func (b *builder) wholes() []gpu {
	var first, rest []gpu
	for _, g := range stdslices.Backward(b.gpus) {
		switch {
		case !g.whole:
		case stdslices.ContainsFunc(g.near, func(n hardware.NIC) bool { return !b.opts.BusyNICs[n.PCI] }):
			first = append(first, g)
		default:
			rest = append(rest, g)
		}
	}
	return append(first, rest...)
}

// add appends a device, unless it would be tainted where taints are dropped.
func (b *builder) add(group []resourceapi.Device, d resourceapi.Device) []resourceapi.Device {
	if b.opts.Taintless && len(d.Taints) > 0 {
		if !stdslices.Contains(b.opts.Held, d.Name) {
			return group
		}
		d.Taints = nil
	}
	return append(group, d)
}

// rank says where a profile comes among all profiles of the node. It is what
// makes profiles of different GPUs the same.
type rank struct {
	slices    int
	memoryMiB int64
	enum      int
}

func rankOf(p mig.Profile) rank {
	return rank{slices: p.Slices, memoryMiB: p.MemoryMiB, enum: p.Enum}
}

// ranks lists the profiles of all GPUs, the smallest first.
func (b *builder) ranks() []rank {
	var out []rank
	for _, g := range b.gpus {
		for _, p := range g.profiles {
			out = append(out, rankOf(p))
		}
	}
	stdslices.SortFunc(out, func(x, y rank) int {
		return cmp.Or(
			cmp.Compare(x.slices, y.slices),
			cmp.Compare(x.memoryMiB, y.memoryMiB),
			cmp.Compare(x.enum, y.enum),
		)
	})
	return stdslices.Compact(out)
}
