package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RDMAConfig configures NICs. In a request it applies to the NICs that the request
// was given, alone or in a pair with a GPU, not to GPUs or MIG slices.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RDMAConfig struct {
	metav1.TypeMeta `json:",inline"`

	// ISSM gives the container the nodes /dev/infiniband/issmN too, where the NIC has
	// them. A subnet manager needs them; nothing else does.
	//
	// +optional
	ISSM bool `json:"issm,omitempty"`
	// NCCL gives the container what NCCL needs to find the claim's devices and how
	// they are connected: NCCL_IB_HCA, and a topology file with NCCL_TOPO_FILE. It
	// is off if left out, since what a claim sets in a container's environment
	// overrides what the pod says.
	//
	// +optional
	NCCL bool `json:"nccl,omitempty"`
}
