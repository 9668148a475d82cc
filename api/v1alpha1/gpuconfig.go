package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUConfig configures whole GPUs. In a request it applies to the whole GPUs that
// the request was given, not to MIG slices, and it is refused with admin access,
// which changes nothing of what another claim uses.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type GPUConfig struct {
	metav1.TypeMeta `json:",inline"`

	// ComputeMode is who may use the GPU at the same time while the claim holds
	// it. When the claim lets go, the mode found before is set again. Left out,
	// the mode stays as it is.
	//
	// +optional
	ComputeMode *ComputeMode `json:"computeMode,omitempty"`
}

// ComputeMode is who may use a GPU at the same time.
type ComputeMode string

const (
	// ComputeModeDefault lets any number of processes use the GPU.
	ComputeModeDefault ComputeMode = "Default"
	// ComputeModeExclusiveProcess lets one process at a time use the GPU.
	ComputeModeExclusiveProcess ComputeMode = "ExclusiveProcess"
	// ComputeModeProhibited lets no process use the GPU for computing; it can
	// still be monitored.
	ComputeModeProhibited ComputeMode = "Prohibited"
)

// ComputeModes returns every value, the default first.
func ComputeModes() []ComputeMode {
	return []ComputeMode{ComputeModeDefault, ComputeModeExclusiveProcess, ComputeModeProhibited}
}
