package slices

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// The attributes of a device, unqualified, so in the domain of the driver's
// name: device.attributes["<driver>"].type. Beside them stand Kubernetes' own
// resource.kubernetes.io/pciBusID, pcieRoot and numaNode. None is volatile.
const (
	// AttributeType is TypeGPU, TypeMIG, TypeNIC or TypePair; every device has it.
	AttributeType resourceapi.QualifiedName = "type"
	// AttributeUUID is a whole GPU's, "GPU-...".
	AttributeUUID resourceapi.QualifiedName = "uuid"
	// AttributeParentUUID is the UUID of the GPU that a MIG slice is part of.
	AttributeParentUUID resourceapi.QualifiedName = "parentUUID"
	// AttributeProfile is a MIG slice's profile, for example "1g.10gb".
	AttributeProfile resourceapi.QualifiedName = "profile"

	AttributeProductName           resourceapi.QualifiedName = "productName"
	AttributeBrand                 resourceapi.QualifiedName = "brand"
	AttributeArchitecture          resourceapi.QualifiedName = "architecture"
	AttributeCUDAComputeCapability resourceapi.QualifiedName = "cudaComputeCapability"
	AttributeDriverVersion         resourceapi.QualifiedName = "driverVersion"
	AttributeCUDADriverVersion     resourceapi.QualifiedName = "cudaDriverVersion"

	// AttributePCIeSwitch is the address of the upstream port of the PCIe switch that
	// is nearest to the device, or of its root port where there is no switch. GPUs, MIG
	// slices and NICs have it: those with the same one are nearest to each other.
	AttributePCIeSwitch resourceapi.QualifiedName = "pcieSwitch"
	// AttributeNVLinkDomain names the GPUs that reach each other through NVLink
	// switches: "<UUID>.<clique>", as NVIDIA's GPU feature discovery labels nodes
	// (nvidia.com/gpu.clique). Of a fabric that spans nodes the UUID is NVML's. One that
	// ends at the node has none, and zeros would make GPUs of different nodes look like
	// neighbours; its UUID is made of the node's name.
	//
	// GPUs from before Hopper lack it, since NVML tells nothing of their fabric, and so
	// do MIG slices, between which there is no NVLink (MIG User Guide, Deployment
	// Considerations).
	AttributeNVLinkDomain resourceapi.QualifiedName = "nvlinkDomain"
)

// The values of AttributeType.
const (
	TypeGPU = "gpu"
	TypeMIG = "mig"
	TypeNIC = "nic"
	// TypePair is a GPU and a NIC near it, as one device.
	TypePair = "gpu-nic"
)

// The capacities of a device. A whole GPU has only CapacityMemory, in bytes; a
// MIG slice has all that NVML reports for its profile and that is not zero.
const (
	CapacityMemory          resourceapi.QualifiedName = "memory"
	CapacityMultiprocessors resourceapi.QualifiedName = "multiprocessors"
	CapacityCopyEngines     resourceapi.QualifiedName = "copyEngines"
	CapacityDecoders        resourceapi.QualifiedName = "decoders"
	CapacityEncoders        resourceapi.QualifiedName = "encoders"
	CapacityJPEGEngines     resourceapi.QualifiedName = "jpegEngines"
	CapacityOFAEngines      resourceapi.QualifiedName = "ofaEngines"
)

// gpuAttributes is what a GPU and its MIG slices have in common.
func (b *builder) gpuAttributes(g gpu) attributes {
	a := attributes{}
	a.text(AttributeProductName, g.ProductName)
	a.text(AttributeBrand, g.Brand)
	a.text(AttributeArchitecture, g.Architecture)
	a.version(AttributeCUDAComputeCapability, g.CUDAComputeCapability)
	a.version(AttributeDriverVersion, b.node.DriverVersion)
	a.version(AttributeCUDADriverVersion, cudaVersion(b.node.CUDADriverVersion))
	a.place(g.Place(), b.opts.Lists)
	return a
}

// nvlinkDomain is empty without a fabric. Node names are DNS names, so the one in place
// of a cluster's UUID is that of a DNS name (RFC 9562, version 5): the same after every
// restart, and another one on every other node.
func (b *builder) nvlinkDomain(f *hardware.NVLinkFabric) string {
	if f == nil {
		return ""
	}
	cluster := f.Cluster
	if cluster == "" {
		cluster = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(b.opts.NodeName)).String()
	}
	return fmt.Sprintf("%s.%d", cluster, f.Clique)
}

// attributes collects what is known of a device. What is unknown, or cannot be
// published as it is, is left out rather than altered: half a value could match
// a selector that the whole one does not.
type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func (a attributes) text(name resourceapi.QualifiedName, s string) {
	if s != "" && len(s) <= resourceapi.DeviceAttributeMaxValueLength && utf8.ValidString(s) {
		a[name] = resourceapi.DeviceAttribute{StringValue: &s}
	}
}

func (a attributes) number(name resourceapi.QualifiedName, n int64) {
	a[name] = resourceapi.DeviceAttribute{IntValue: &n}
}

func (a attributes) flag(name resourceapi.QualifiedName, v bool) {
	a[name] = resourceapi.DeviceAttribute{BoolValue: &v}
}

// place is where a device sits, in the same words for GPUs and NICs, so that
// constraints can compare them.
func (a attributes) place(p hardware.Place, lists bool) {
	// Kubernetes' standard form has a domain of exactly four digits; the longer
	// domains of some virtual machines have no valid value.
	if len(p.PCI) == len("0000:00:00.0") {
		a.text(deviceattribute.StandardDeviceAttributePCIBusID, string(p.PCI))
	}
	a.text(deviceattribute.StandardDeviceAttributePCIeRoot, p.PCIeRoot)
	// A negative node is the kernel's way to say that there is none.
	if p.NUMANode != nil && *p.NUMANode >= 0 {
		a.number(deviceattribute.StandardDeviceAttributeNUMANode, int64(*p.NUMANode))
		if lists {
			a.nodes(*p.NUMANode, p.NUMANear)
		}
	}
	a.text(AttributePCIeSwitch, string(p.Switch()))
}

// listLimit is how long one list may be at most, so that a device with as many other
// attributes as it may have keeps the limit of all values together.
const listLimit = resourceapi.ResourceSliceMaxAttributeValuesPerDevice - resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice + 1

// nodes puts a list in place of the device's NUMA node: the node itself first, then those
// as good as it (KEP-6072), so that a constraint is met by what two devices have in
// common. A node without such others stays as it is: for constraints and includes() in
// selectors that is the same as a list of one (API documentation of matchAttribute;
// k8s.io/apiserver, pkg/cel/library/lists.go), and it goes on working in a scheduler
// without lists and with selectors that compare by ==. Too long a list says nothing worth
// having.
func (a attributes) nodes(own int, near []int) {
	if len(near) == 0 || len(near) >= listLimit {
		return
	}
	values := []int64{int64(own)}
	for _, n := range near {
		values = append(values, int64(n))
	}
	a[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValues: values}
}

func (a attributes) version(name resourceapi.QualifiedName, s string) {
	if v, ok := semver(s); ok {
		a[name] = resourceapi.DeviceAttribute{VersionValue: &v}
	}
}

var versionPattern = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)

// semver turns one to three numbers into a semantic version, which the API
// demands: NVIDIA's have leading zeros ("595.58.03") or two parts ("9.0").
// Anything else has no faithful form, and one invalid version would make the API
// server refuse the whole slice.
func semver(s string) (string, bool) {
	if !versionPattern.MatchString(s) {
		return "", false
	}
	parts := strings.Split(s, ".")
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return "", false
		}
		parts[i] = strconv.FormatUint(n, 10)
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return strings.Join(parts, "."), true
}

// cudaVersion is "major.minor" of CUDA's number, 1000*major + 10*minor; empty
// when unknown.
func cudaVersion(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", n/1000, n%1000/10)
}
