package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MIGConfig configures MIG slices. In a request it applies to the MIG slices that
// the request was given, not to whole GPUs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type MIGConfig struct {
	metav1.TypeMeta `json:",inline"`

	// ComputeInstances divides the slice's compute slices among several compute
	// instances, which share its memory and engines. Each is a MIG device with a
	// UUID of its own; the claim is given all of them. CUDA uses one of them per
	// process, the first unless CUDA_VISIBLE_DEVICES names another. Left out, one
	// compute instance takes the whole slice.
	//
	// +optional
	// +listType=atomic
	ComputeInstances []ComputeInstances `json:"computeInstances,omitempty"`
}

// ComputeInstances are equal compute instances.
type ComputeInstances struct {
	// Slices is the number of compute slices of each.
	Slices int32 `json:"slices"`
	// Count is how many there are to be; 1 if left out.
	//
	// +optional
	Count *int32 `json:"count,omitempty"`
}

// ComputeSlices are the sizes that compute instances can have (nvml.h,
// NVML_COMPUTE_INSTANCE_PROFILE_*).
func ComputeSlices() []int32 { return []int32{1, 2, 3, 4, 6, 7, 8} }

// MaxComputeInstances is how many compute instances a MIG slice can have: the
// driver has capability nodes for eight.
const MaxComputeInstances = 8
