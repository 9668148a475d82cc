// Package v1alpha1 has the kinds of the group cleave.dev/v1alpha1: what users write
// as opaque parameters of a ResourceClaim or a DeviceClass, and custom resources.
//
// +k8s:deepcopy-gen=package
// +groupName=cleave.dev
package v1alpha1

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.37.2 --output-file zz_generated.deepcopy.go .
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd paths=. output:crd:dir=../../deployments/helm/cleave/files/crds
