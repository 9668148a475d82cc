package slices

import (
	"fmt"
	"maps"
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// The attributes that only NICs have. A pair has some of them, beside its GPU's.
const (
	// AttributeRDMADevice is the kernel's name of the RDMA device for traffic, for
	// example "mlx5_0"; AttributeInterface that of the network interface, if any.
	AttributeRDMADevice resourceapi.QualifiedName = "rdmaDevice"
	AttributeInterface  resourceapi.QualifiedName = "ifName"
	// AttributeLinkLayer is "InfiniBand" or "Ethernet".
	AttributeLinkLayer resourceapi.QualifiedName = "linkLayer"
	// AttributeNodeGUID and AttributePortGUID, of the first port, are as the kernel
	// writes them, "0c42:a103:00c6:cf52".
	AttributeNodeGUID resourceapi.QualifiedName = "nodeGUID"
	AttributePortGUID resourceapi.QualifiedName = "portGUID"

	AttributeFirmwareVersion resourceapi.QualifiedName = "fwVersion"
	AttributeBoardID         resourceapi.QualifiedName = "boardID"
	AttributeHCAType         resourceapi.QualifiedName = "hcaType"

	// AttributeVF tells a virtual function, AttributeParent is its physical one's PCI
	// address.
	AttributeVF     resourceapi.QualifiedName = "vf"
	AttributeParent resourceapi.QualifiedName = "parent"
	// AttributeRail is the rail of the cluster's network, counted from 0. NICs that are
	// not for traffic between GPUs have none.
	AttributeRail resourceapi.QualifiedName = "rail"

	// CapacityBandwidth is the sum of the rates of all ports with a link, in bit/s.
	CapacityBandwidth resourceapi.QualifiedName = "bandwidth"
)

// gigabit is the step in which bandwidth is shared, in bit/s.
const gigabit = 1_000_000_000

// counterNIC is the only counter of a NIC's set, counterGPU that of a GPU that is not
// published in parts.
const (
	counterNIC = "nic"
	counterGPU = "gpu"
)

func nicCounters() map[string]int64 { return map[string]int64{counterNIC: 1} }

// NICs are the devices that stand for the node's NICs, in the order of their addresses,
// as Build publishes them: for those who choose which are to be published.
func NICs(node hardware.Node, opts Options) []resourceapi.Device {
	b := newBuilder(node, opts)
	var out []resourceapi.Device
	for _, n := range b.nics {
		out = append(out, b.nic(n))
	}
	return out
}

// nicDevices are the NICs that are nearest to some GPU, then the others, each from the
// last one backwards. That is the order of whole GPUs, so that a claim for both, without
// any constraint, often gets what belongs together.
func (b *builder) nicDevices() []resourceapi.Device {
	var near, far []resourceapi.Device
	for _, n := range stdslices.Backward(b.nics) {
		if stdslices.ContainsFunc(b.gpus, func(g gpu) bool {
			return stdslices.ContainsFunc(g.near, func(m hardware.NIC) bool { return m.PCI == n.PCI })
		}) {
			near = b.add(near, b.nic(n))
		} else {
			far = b.add(far, b.nic(n))
		}
	}
	return append(near, far...)
}

// nic is the device that stands for one NIC.
func (b *builder) nic(n hardware.NIC) resourceapi.Device {
	attrs := attributes{}
	attrs.text(AttributeType, TypeNIC)
	attrs.place(n.Place())
	b.nicIdentity(attrs, n)
	attrs.text(AttributeInterface, n.Interface)
	attrs.flag(AttributeVF, n.Parent != "")
	attrs.text(AttributeParent, string(n.Parent))
	if len(n.RDMA) > 0 {
		d := n.RDMA[0]
		attrs.text(AttributeNodeGUID, d.NodeGUID)
		attrs.version(AttributeFirmwareVersion, d.FirmwareVersion)
		attrs.text(AttributeBoardID, d.BoardID)
		attrs.text(AttributeHCAType, d.HCAType)
		if len(d.Ports) > 0 {
			attrs.text(AttributePortGUID, d.Ports[0].GUID)
		}
	}
	capacity := capacities{}
	capacity.add(CapacityBandwidth, n.Bandwidth(), resource.DecimalSI)
	d := resourceapi.Device{Name: n.DeviceName(), Attributes: attrs, Capacity: capacity}
	d.Taints = copies(b.opts.NICTaints[n.PCI], b.opts.DeviceTaints[d.Name])
	if b.pairs {
		d.ConsumesCounters = consume(nil, n.DeviceName(), nicCounters())
	}
	if b.opts.NICSharing == NICByBandwidth {
		share(&d, n.Bandwidth())
	}
	return d
}

// nicIdentity is what a NIC and its pairs have in common.
func (b *builder) nicIdentity(attrs attributes, n hardware.NIC) {
	if len(n.RDMA) > 0 {
		attrs.text(AttributeRDMADevice, n.RDMA[0].Name)
		if len(n.RDMA[0].Ports) > 0 {
			attrs.text(AttributeLinkLayer, n.RDMA[0].Ports[0].LinkLayer)
		}
	}
	if rail, ok := b.opts.Rails[n.PCI]; ok {
		attrs.number(AttributeRail, int64(rail))
	}
}

// share lets a NIC take several claims: each as much as it asks for, in whole
// gigabits, or all if it does not say. One without as much as that, because no port
// has a link, is not shared: without a capacity there would be no end to it.
func share(d *resourceapi.Device, bitsPerSecond int64) {
	all := bitsPerSecond / gigabit * gigabit
	if all == 0 {
		return
	}
	yes := true
	d.AllowMultipleAllocations = &yes
	d.Capacity[CapacityBandwidth] = resourceapi.DeviceCapacity{
		Value: *resource.NewQuantity(all, resource.DecimalSI),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default: resource.NewQuantity(all, resource.DecimalSI),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{
				Min:  resource.NewQuantity(gigabit, resource.DecimalSI),
				Step: resource.NewQuantity(gigabit, resource.DecimalSI),
			},
		},
	}
}

// shared checks what the API server checks of a device that takes several claims
// (validateDeviceCapacity in Kubernetes' pkg/apis/resource/validation), and that it
// has no counters, which the scheduler would count once only.
func (p *problems) shared(what string, d resourceapi.Device) {
	multiple := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	if multiple && len(d.ConsumesCounters) > 0 {
		p.add("%s: allows several allocations and consumes counters", what)
	}
	for _, name := range stdslices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		if c.RequestPolicy != nil && !multiple {
			p.add("%s: capacity %s has a request policy, but is not shared", what, name)
		}
		if c.RequestPolicy != nil {
			p.requestPolicy(fmt.Sprintf("%s: capacity %s", what, name), c)
		}
	}
}

func (p *problems) requestPolicy(what string, c resourceapi.DeviceCapacity) {
	policy := c.RequestPolicy
	if policy.Default == nil || policy.ValidRange == nil || policy.ValidRange.Min == nil || policy.ValidRange.Step == nil {
		p.add("%s: the request policy lacks a default, a minimum or a step", what)
		return
	}
	value, from, step, all := policy.Default.Value(), policy.ValidRange.Min.Value(), policy.ValidRange.Step.Value(), c.Value.Value()
	if from < 0 || step <= 0 || value < from || value > all || (value-from)%step != 0 {
		p.add("%s: the default %d is not between the minimum %d and all %d in steps of %d", what, value, from, all, step)
	}
}
