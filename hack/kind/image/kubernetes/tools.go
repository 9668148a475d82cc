//go:build tools

// Package kubernetes pins the Kubernetes commands that the node image is
// built from. Kubernetes has replace lines in its go.mod, so `go install
// k8s.io/kubernetes/cmd/...@version` refuses; a module of its own may repeat them.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
