// Package cluster is what the demo and the end-to-end tests do with a real
// Kubernetes cluster: apply manifests, wait, run commands in pods, read what
// claims got, and explain why something is not as expected.
package cluster

import (
	"errors"
	"fmt"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// DriverName is the driver whose devices are looked at.
const DriverName = "cleave.dev"

// Cluster is a connection to one cluster.
type Cluster struct {
	Config  *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// Connect reads the kubeconfig file at path, or, if path is empty, the one that
// kubectl would use, and checks that the API server answers.
func Connect(path string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if errors.Is(err, rest.ErrNotInCluster) || clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster: set KUBECONFIG to the file of a cluster with Cleave (`make demo` makes one)")
	}
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = 100, 200 // tests make many pods at once
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", cfg.Host, err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", cfg.Host, err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("reach the cluster at %s: %w", cfg.Host, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return &Cluster{Config: cfg, Client: client, Dynamic: dyn, mapper: mapper}, nil
}
