package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClaimProfileSpec is what a pod needs, all of it on one node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.constraints) || self.constraints.all(c, !has(c.groups) || c.groups.all(g, self.groups.exists(x, x.name == g)))",message="constraints name groups of this profile only",fieldPath=".constraints"
// +kubebuilder:validation:XValidation:rule="self.groups.filter(g, has(g.wholeNode) && g.wholeNode).size() <= 1",message="only one group can be a whole node",fieldPath=".groups"
type ClaimProfileSpec struct {
	// Groups are the devices, each group so many that are alike.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Groups []ClaimGroup `json:"groups"`
	// Constraints say what devices have to have in common, within a group and across
	// groups.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Constraints []ClaimConstraint `json:"constraints,omitempty"`
}

// ClaimGroup is a number of devices that are alike: one of gpu, mig, nic and
// gpuWithNIC, or a list of alternatives in firstAvailable.
//
// +kubebuilder:validation:XValidation:rule="[has(self.gpu), has(self.mig), has(self.nic), has(self.gpuWithNIC), has(self.firstAvailable)].exists_one(x, x)",message="a group is exactly one of gpu, mig, nic, gpuWithNIC and firstAvailable"
// +kubebuilder:validation:XValidation:rule="!has(self.firstAvailable) || !has(self.count)",message="each alternative has a count of its own",fieldPath=".count"
// +kubebuilder:validation:XValidation:rule="!has(self.wholeNode) || !self.wholeNode || has(self.gpu) || has(self.gpuWithNIC)",message="a whole node is a group of gpu or gpuWithNIC",fieldPath=".wholeNode"
type ClaimGroup struct {
	// Name of the group, and of its request in the claim, by which a container can ask
	// for this group alone. Where a group becomes several requests, as GPUs with NICs do
	// that are not published as pairs, their names start with it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	ClaimMembers `json:",inline"`

	// WholeNode says that the group is all GPUs of a node, with gpuWithNIC also all NICs
	// near them. Nothing then has to be matched to anything, which the scheduler finds
	// fastest. With it count can be left out: it is what the cluster's nodes have.
	//
	// +optional
	WholeNode bool `json:"wholeNode,omitempty"`
	// FirstAvailable are alternatives: the scheduler gives the first that a node has. An
	// alternative that needs several kinds of devices is one only as gpuWithNIC, and
	// only where pairs are published.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, has(a.nic)) || !self.exists(a, has(a.nic))",message="the alternatives are all of nic, or none is"
	FirstAvailable []ClaimAlternative `json:"firstAvailable,omitempty"`
	// Config are objects that configure the devices: GPUConfig, MIGConfig, RDMAConfig.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:XEmbeddedResource
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.apiVersion == 'cleave.dev/v1alpha1' && c.kind in ['GPUConfig', 'MIGConfig', 'RDMAConfig'])",message="each is a GPUConfig, MIGConfig or RDMAConfig of cleave.dev/v1alpha1"
	Config []runtime.RawExtension `json:"config,omitempty"`
}

// ClaimAlternative is one of the alternatives in firstAvailable.
//
// +kubebuilder:validation:XValidation:rule="[has(self.gpu), has(self.mig), has(self.nic), has(self.gpuWithNIC)].exists_one(x, x)",message="an alternative is exactly one of gpu, mig, nic and gpuWithNIC"
type ClaimAlternative struct {
	ClaimMembers `json:",inline"`
}

// ClaimMembers are devices that are alike.
type ClaimMembers struct {
	// Count is how many there are to be; 1 if left out.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Count *int32 `json:"count,omitempty"`
	// GPU asks for whole GPUs; {} for any.
	//
	// +optional
	GPU *GPUMember `json:"gpu,omitempty"`
	// MIG asks for MIG slices.
	//
	// +optional
	MIG *MIGMember `json:"mig,omitempty"`
	// NIC asks for RDMA NICs; {} for any.
	//
	// +optional
	NIC *NICMember `json:"nic,omitempty"`
	// GPUWithNIC asks for whole GPUs, each with a NIC near it; {} for any.
	//
	// +optional
	GPUWithNIC *GPUWithNICMember `json:"gpuWithNIC,omitempty"`
}

// GPUSelection is which GPUs a group is about.
type GPUSelection struct {
	// Model is one or more words of the product name, for example H100, A100 or
	// "RTX PRO 6000". They are matched as whole words, in any case: H200 is not GH200.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9 ._]*[A-Za-z0-9])?$`
	Model string `json:"model,omitempty"`
	// Architecture is NVIDIA's name of the GPU's generation, for example Ampere, Hopper,
	// Blackwell or "Ada Lovelace".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z]*( [A-Z][A-Za-z]*)*$`
	Architecture string `json:"architecture,omitempty"`
}

// GPUMember is a whole GPU.
type GPUMember struct {
	GPUSelection `json:",inline"`

	// Memory is the least that it has, for example 79Gi. That is less than it is sold
	// with: an H100 with 80 GB has 79.6Gi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self > 0",message="memory is more than 0"
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// MIGMember is a MIG slice: by its profile, or by what it needs.
//
// +kubebuilder:validation:XValidation:rule="has(self.profile) != (has(self.memory) || has(self.computeSlices))",message="a MIG slice has either a profile, or memory or computeSlices or both"
type MIGMember struct {
	GPUSelection `json:",inline"`

	// Profile is the slice's profile as nvidia-smi names it, for example 1g.10gb or
	// 1g.10gb+me.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*g\.[1-9][0-9]*gb([+-][a-z]+(\.[a-z]+)?)?$`
	Profile string `json:"profile,omitempty"`
	// Memory is the least that the slice has, for example 15Gi. Of the profiles that the
	// cluster's GPUs offer, the smallest that has it is taken, for each model its own.
	// A slice has less memory than its name says: 1g.20gb has 19.6Gi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self > 0",message="memory is more than 0"
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`
	Memory *resource.Quantity `json:"memory,omitempty"`
	// ComputeSlices is the least number of compute slices, the 3 of 3g.40gb.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	ComputeSlices *int32 `json:"computeSlices,omitempty"`
}

// LinkLayer is what a NIC's ports speak.
//
// +kubebuilder:validation:Enum=InfiniBand;Ethernet
type LinkLayer string

const (
	// LinkLayerInfiniBand is InfiniBand.
	LinkLayerInfiniBand LinkLayer = "InfiniBand"
	// LinkLayerEthernet is RDMA over Converged Ethernet (RoCE).
	LinkLayerEthernet LinkLayer = "Ethernet"
)

// NICSelection is which NICs a group is about.
type NICSelection struct {
	// Bandwidth is the least that the NIC has, in bit/s, for example 400G. Where claims
	// share NICs, it is also the share that is set aside.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self > 0",message="bandwidth is more than 0"
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty"`
	// LinkLayer is InfiniBand or Ethernet.
	//
	// +optional
	LinkLayer LinkLayer `json:"linkLayer,omitempty"`
}

// NICMember is an RDMA NIC.
type NICMember struct {
	NICSelection `json:",inline"`
}

// GPUWithNICMember is a whole GPU with a NIC that is near it: as one device where the
// cluster publishes such pairs, else as two behind the same PCIe switch.
type GPUWithNICMember struct {
	GPUMember    `json:",inline"`
	NICSelection `json:",inline"`
}

// ClaimMatch is what devices can have in common.
//
// +kubebuilder:validation:Enum=ParentGPU;NVLinkDomain
type ClaimMatch string

const (
	// MatchParentGPU is for MIG slices of one and the same GPU.
	MatchParentGPU ClaimMatch = "ParentGPU"
	// MatchNVLinkDomain is for whole GPUs that reach each other through NVLink switches.
	MatchNVLinkDomain ClaimMatch = "NVLinkDomain"
)

// ClaimConstraint says what all devices of some groups have in common.
type ClaimConstraint struct {
	// Match is ParentGPU, for MIG slices that are to be on one and the same GPU, or
	// NVLinkDomain, for whole GPUs that are to reach each other through NVLink switches.
	Match ClaimMatch `json:"match"`
	// Groups are those that it is about, by name; all if left out.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=48
	Groups []string `json:"groups,omitempty"`
}
