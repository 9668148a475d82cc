package slices

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleave-dra/cleave/pkg/mig"
)

const mib = 1 << 20

// whole is the device that stands for an entire GPU. It consumes all counters,
// and so excludes every MIG slice of the GPU.
func (b *builder) whole(g gpu) resourceapi.Device {
	attrs := b.gpuAttributes(g)
	attrs.text(AttributeType, TypeGPU)
	b.wholeAttributes(attrs, g)
	capacity := capacities{}
	capacity.bytes(CapacityMemory, g.MemoryMiB*mib)
	d := b.device(g, g.DeviceName(), attrs, capacity, g.counters.Total)
	if len(b.opts.Existing[g.PCI]) > 0 {
		d.Taints = append(d.Taints, foreign())
	}
	return d
}

// wholeAttributes is what only an entire GPU has.
func (b *builder) wholeAttributes(attrs attributes, g gpu) {
	attrs.text(AttributeUUID, g.UUID)
	attrs.text(AttributeNVLinkDomain, b.nvlinkDomain(g.NVLink))
}

// partition is the device that stands for a MIG slice that may not exist yet:
// it has no UUID before it is made.
func (b *builder) partition(g gpu, p mig.Profile, pl mig.Placement) resourceapi.Device {
	attrs := b.gpuAttributes(g)
	attrs.text(AttributeType, TypeMIG)
	attrs.text(AttributeParentUUID, g.UUID)
	attrs.text(AttributeProfile, p.Name)
	capacity := capacities{}
	capacity.bytes(CapacityMemory, p.MemoryMiB*mib)
	capacity.pieces(CapacityMultiprocessors, p.Multiprocessors)
	capacity.pieces(CapacityCopyEngines, p.CopyEngines)
	capacity.pieces(CapacityDecoders, p.Decoders)
	capacity.pieces(CapacityEncoders, p.Encoders)
	capacity.pieces(CapacityJPEGEngines, p.JPEGEngines)
	capacity.pieces(CapacityOFAEngines, p.OFAEngines)
	d := b.device(g, g.PartitionName(p, pl), attrs, capacity, g.counters.Of(p, pl))
	if b.obstructed(g, p, pl) {
		d.Taints = append(d.Taints, foreign())
	}
	return d
}

// TaintForeignInstance is on devices that cannot be had while a MIG instance is
// there that no claim made. A claim that tolerates it is refused on the node.
const TaintForeignInstance = "cleave.dev/foreign-mig-instance"

func foreign() resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: TaintForeignInstance, Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// obstructed tells whether an instance that no claim made is in a slice's way.
func (b *builder) obstructed(g gpu, p mig.Profile, pl mig.Placement) bool {
	for _, inst := range b.opts.Existing[g.PCI] {
		served := b.opts.ServeExisting && inst.ProfileID == p.ID && inst.Placement == pl && len(inst.Compute) > 0
		if pl.Overlaps(inst.Placement) && !served {
			return true
		}
	}
	return false
}

func (b *builder) device(g gpu, name string, attrs attributes, capacity capacities, consumed map[string]int64) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: attrs, Capacity: capacity}
	d.ConsumesCounters = consume(d.ConsumesCounters, g.DeviceName(), consumed)
	d.Taints = copies(b.opts.GPUTaints[g.PCI], b.opts.DeviceTaints[name])
	return d
}

// consume adds what a device takes of a counter set, if that has any counters.
func consume(all []resourceapi.DeviceCounterConsumption, set string, consumed map[string]int64) []resourceapi.DeviceCounterConsumption {
	if len(consumed) == 0 {
		return all
	}
	return append(all, resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: counters(consumed)})
}

// copies are needed because the publisher rounds the time of each taint in place.
func copies(all ...[]resourceapi.DeviceTaint) []resourceapi.DeviceTaint {
	var out []resourceapi.DeviceTaint
	for _, taints := range all {
		for _, taint := range taints {
			out = append(out, *taint.DeepCopy())
		}
	}
	return out
}

// counters turns the arithmetic's numbers into the API's.
func counters(values map[string]int64) map[string]resourceapi.Counter {
	out := make(map[string]resourceapi.Counter, len(values))
	for name, value := range values {
		format := resource.DecimalSI
		if name == mig.CounterMemory {
			format = resource.BinarySI
		}
		out[name] = resourceapi.Counter{Value: *resource.NewQuantity(value, format)}
	}
	return out
}

// capacities collects what is known of a device's size. What is zero is left
// out: NVML reports engines that a profile lacks and figures that a driver does
// not know in the same way, and a selector must not mistake one for the other.
type capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

func (c capacities) bytes(name resourceapi.QualifiedName, n int64) {
	c.add(name, n, resource.BinarySI)
}

func (c capacities) pieces(name resourceapi.QualifiedName, n int) {
	c.add(name, int64(n), resource.DecimalSI)
}

func (c capacities) add(name resourceapi.QualifiedName, n int64, format resource.Format) {
	if n > 0 {
		c[name] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(n, format)}
	}
}
