package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClaimProfile says in a few words which GPUs, MIG slices and NICs a pod needs. Cleave
// makes a ResourceClaimTemplate of the same name from it, in the same namespace, in a
// form that the scheduler finds devices for quickly; pods name that template.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=clp,categories=cleave
// +kubebuilder:printcolumn:name="Rendered",type=string,JSONPath=`.status.conditions[?(@.type=="Rendered")].status`,description="Whether a claim can be made of the profile"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the ResourceClaimTemplate is there and as it should be"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.status.requests`,priority=1,description="Number of requests in the template"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClaimProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what a pod needs.
	Spec ClaimProfileSpec `json:"spec"`
	// Status says what has become of it.
	//
	// +optional
	Status ClaimProfileStatus `json:"status,omitempty"`
}

// ClaimProfileList is a list of ClaimProfiles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClaimProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClaimProfile `json:"items"`
}

// ClusterClaimProfile is a ClaimProfile for several namespaces: an administrator writes
// it once, and Cleave makes the ResourceClaimTemplate in every namespace that it selects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cclp,categories=cleave
// +kubebuilder:printcolumn:name="Rendered",type=string,JSONPath=`.status.conditions[?(@.type=="Rendered")].status`,description="Whether a claim can be made of the profile"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the ResourceClaimTemplate is there and as it should be, in every namespace"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces`,description="Number of namespaces that have the template"
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.status.requests`,priority=1,description="Number of requests in the template"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterClaimProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what a pod needs, and for which namespaces.
	Spec ClusterClaimProfileSpec `json:"spec"`
	// Status says what has become of it.
	//
	// +optional
	Status ClusterClaimProfileStatus `json:"status,omitempty"`
}

// ClusterClaimProfileList is a list of ClusterClaimProfiles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterClaimProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterClaimProfile `json:"items"`
}

// ClusterClaimProfileSpec is what a pod needs, and for which namespaces.
type ClusterClaimProfileSpec struct {
	// NamespaceSelector chooses the namespaces by their labels; {} chooses all.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	ClaimProfileSpec `json:",inline"`
}

// The types of the conditions of a profile.
const (
	// ConditionRendered tells whether a claim can be made of the profile's parameters.
	// If not, the reason is a word for what is in the way, and the message says what to
	// change.
	ConditionRendered = "Rendered"
	// ConditionReady tells whether the ResourceClaimTemplate is there and as the profile
	// has it, so that pods can name it.
	ConditionReady = "Ready"
)

// ClaimProfileStatus is what has become of a profile.
type ClaimProfileStatus struct {
	// ObservedGeneration is the metadata.generation that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Requests is the number of requests in the ResourceClaimTemplate.
	//
	// +optional
	Requests int32 `json:"requests,omitempty"`
	// Conditions are Rendered, whether a claim can be made of the profile, and Ready,
	// whether the ResourceClaimTemplate is there and as it should be. Their messages say
	// what is in the way.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterClaimProfileStatus is what has become of a profile in all its namespaces.
type ClusterClaimProfileStatus struct {
	ClaimProfileStatus `json:",inline"`

	// Namespaces is the number of namespaces that have the ResourceClaimTemplate.
	//
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`
}
