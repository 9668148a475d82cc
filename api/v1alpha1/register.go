package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group, whatever name the driver runs under.
	GroupName = "cleave.dev"
	// Version of the group in this package.
	Version = "v1alpha1"
	// GPUConfigKind is the kind of GPUConfig.
	GPUConfigKind = "GPUConfig"
	// MIGConfigKind is the kind of MIGConfig.
	MIGConfigKind = "MIGConfig"
	// RDMAConfigKind is the kind of RDMAConfig.
	RDMAConfigKind = "RDMAConfig"
	// ClaimProfileKind is the kind of ClaimProfile.
	ClaimProfileKind = "ClaimProfile"
	// ClusterClaimProfileKind is the kind of ClusterClaimProfile.
	ClusterClaimProfileKind = "ClusterClaimProfile"
)

// GroupVersion returns cleave.dev/v1alpha1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&GPUConfig{}, &MIGConfig{}, &RDMAConfig{},
		&ClaimProfile{}, &ClaimProfileList{}, &ClusterClaimProfile{}, &ClusterClaimProfileList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
