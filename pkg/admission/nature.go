package admission

import (
	"fmt"
	stdslices "slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/selector"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// nature is what the devices of one type have, beside their type. A test holds it
// against what is published for every known server.
type nature struct {
	kind params.DeviceType
	// called is what people call them.
	called string
	// Each of them has what always names; what sometimes names, only some have: it is
	// not known of all hardware, not reported by all of it, or comes and goes.
	always, sometimes names
}

// names are those of attributes and capacities.
type names struct {
	attributes, capacity []resourceapi.QualifiedName
}

func (n names) and(more names) names {
	return names{stdslices.Concat(n.attributes, more.attributes), stdslices.Concat(n.capacity, more.capacity)}
}

func natures() []nature {
	place := names{attributes: []resourceapi.QualifiedName{
		deviceattribute.StandardDeviceAttributePCIBusID, deviceattribute.StandardDeviceAttributePCIeRoot,
		deviceattribute.StandardDeviceAttributeNUMANode, slices.AttributePCIeSwitch,
	}}
	gpu := names{
		attributes: []resourceapi.QualifiedName{
			slices.AttributeProductName, slices.AttributeBrand, slices.AttributeArchitecture, slices.AttributeCUDAComputeCapability,
			slices.AttributeDriverVersion, slices.AttributeCUDADriverVersion,
		},
		capacity: []resourceapi.QualifiedName{slices.CapacityMemory},
	}
	whole := gpu.and(names{attributes: []resourceapi.QualifiedName{slices.AttributeUUID}})
	nvlink := names{attributes: []resourceapi.QualifiedName{slices.AttributeNVLinkDomain}}
	partition := names{
		attributes: []resourceapi.QualifiedName{slices.AttributeParentUUID, slices.AttributeProfile},
		capacity:   []resourceapi.QualifiedName{slices.CapacityMultiprocessors, slices.CapacityCopyEngines},
	}
	engines := names{capacity: []resourceapi.QualifiedName{
		slices.CapacityDecoders, slices.CapacityEncoders, slices.CapacityJPEGEngines, slices.CapacityOFAEngines,
	}}
	rdma := names{attributes: []resourceapi.QualifiedName{slices.AttributeRDMADevice, slices.AttributeLinkLayer}}
	// No port with a link, no bandwidth.
	port := names{
		attributes: []resourceapi.QualifiedName{slices.AttributeRail},
		capacity:   []resourceapi.QualifiedName{slices.CapacityBandwidth},
	}
	return []nature{
		{params.WholeGPU, "whole GPUs", whole, place.and(nvlink)},
		{params.MIGSlice, "MIG slices", gpu.and(partition), place.and(engines)},
		{params.NIC, "NICs", rdma.and(names{attributes: []resourceapi.QualifiedName{slices.AttributeVF}}),
			place.and(port).and(names{attributes: []resourceapi.QualifiedName{
				slices.AttributeInterface, slices.AttributeParent, slices.AttributeNodeGUID, slices.AttributePortGUID,
				slices.AttributeFirmwareVersion, slices.AttributeBoardID, slices.AttributeHCAType,
			}})},
		{params.Pair, "pairs of a GPU and a NIC", whole.and(rdma), place.and(nvlink).and(port).and(names{attributes: []resourceapi.QualifiedName{
			slices.AttributeNICBusID,
		}})},
	}
}

// specimen is a nature in the selectors' terms.
type specimen struct {
	nature
	// full has all that it may have; least has only what all have.
	full, least selector.Device
}

// specimens are the driver's devices of each type.
func specimens(driver string) ([]specimen, error) {
	var out []specimen
	for _, n := range natures() {
		known := selector.Known{
			Driver:     driver,
			Text:       map[resourceapi.QualifiedName]string{slices.AttributeType: string(n.kind)},
			Attributes: n.always.attributes,
			Capacity:   n.always.capacity,
		}
		least, err := selector.NewDevice(known)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", n.called, err)
		}
		all := n.always.and(n.sometimes)
		known.Attributes, known.Capacity = all.attributes, all.capacity
		full, err := selector.NewDevice(known)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", n.called, err)
		}
		out = append(out, specimen{nature: n, full: full, least: least})
	}
	return out, nil
}
