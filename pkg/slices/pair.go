package slices

import (
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// AttributeNICBusID is the PCI address of a pair's NIC; resource.kubernetes.io/pciBusID
// is its GPU's.
const AttributeNICBusID resourceapi.QualifiedName = "nicPCIBusID"

// nearest are the NICs that are nearest to a GPU, if no host bridge lies between
// (PIX or PXB): up to there NCCL moves data between GPU and NIC without the CPU's
// memory (paths.cc, the default of NCCL_NET_GDR_LEVEL), and DGX A100 has its compute
// NICs no nearer than PXB. Those farther away than the nearest are left out: each
// pair more that shares a GPU or a NIC with others makes the scheduler's search for a
// set that does not fit longer by a factor. For the same reason a physical function
// with virtual ones is left to these.
func nearest(g hardware.GPU, nics []hardware.NIC) []hardware.NIC {
	byDistance := map[hardware.Distance][]hardware.NIC{}
	for _, n := range nics {
		divided := stdslices.ContainsFunc(nics, func(vf hardware.NIC) bool { return vf.Parent == n.PCI })
		if !divided {
			d := hardware.DistanceBetween(g.Place(), n.Place())
			byDistance[d] = append(byDistance[d], n)
		}
	}
	if near := byDistance[hardware.DistancePIX]; len(near) > 0 {
		return near
	}
	return byDistance[hardware.DistancePXB]
}

// pairDevices are the GPUs with their NICs, from the last GPU backwards like whole
// GPUs. Where several GPUs have the same NICs near them, the first round pairs each
// with one of its own, so that all can be had by taking the first that are free, and
// the further rounds have the other combinations.
func (b *builder) pairDevices() []resourceapi.Device {
	var out []resourceapi.Device
	// turns is how many GPUs have begun with each set of NICs, by the first of them.
	turns := map[hardware.PCIAddress]int{}
	offset := map[hardware.PCIAddress]int{}
	rounds := 0
	for _, g := range stdslices.Backward(b.gpus) {
		if len(g.near) > 0 {
			offset[g.PCI] = turns[g.near[0].PCI]
			turns[g.near[0].PCI]++
			rounds = max(rounds, len(g.near))
		}
	}
	for round := range rounds {
		for _, g := range stdslices.Backward(b.gpus) {
			if n := len(g.near); g.whole && round < n {
				// The last GPU gets the last NIC.
				nic := g.near[n-1-(offset[g.PCI]+round)%n]
				out = b.add(out, b.pair(g, nic))
			}
		}
	}
	return out
}

// pair is the device that stands for a GPU and a NIC. It takes all of both, and has
// the GPU's attributes and those of the NIC by which pairs are chosen: all of both
// would be more than the API's limit.
func (b *builder) pair(g gpu, n hardware.NIC) resourceapi.Device {
	attrs := b.gpuAttributes(g)
	attrs.text(AttributeType, TypePair)
	b.wholeAttributes(attrs, g)
	b.nicIdentity(attrs, n)
	if len(n.PCI) == len("0000:00:00.0") {
		attrs.text(AttributeNICBusID, string(n.PCI))
	}
	capacity := capacities{}
	capacity.bytes(CapacityMemory, g.MemoryMiB*mib)
	capacity.add(CapacityBandwidth, n.Bandwidth(), resource.DecimalSI)
	d := b.device(g, hardware.PairName(g.GPU, n), attrs, capacity, g.counters.Total)
	d.ConsumesCounters = consume(d.ConsumesCounters, n.DeviceName(), nicCounters())
	d.Taints = append(d.Taints, copies(b.opts.NICTaints[n.PCI])...)
	if len(b.opts.Existing[g.PCI]) > 0 {
		d.Taints = append(d.Taints, foreign())
	}
	return d
}
