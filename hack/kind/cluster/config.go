// Package cluster makes, checks, fills and removes the kind cluster.
package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// SimulatedLabel tells which server a node's simulated hardware is.
const SimulatedLabel = "cleave.dev/simulated"

// Options are what the user asks for.
type Options struct {
	Name       string
	Workers    int
	Simulated  []string // server of each worker, in order; may be shorter
	Kubeconfig string
	// FeatureGates are Kubernetes' that are not to be as usual, on all components. A
	// gate that needs another one has to be off with it, or the API server ends at once.
	FeatureGates map[string]bool
}

// ParseFeatureGates reads the gates' values.
func ParseFeatureGates(texts map[string]string) (map[string]bool, error) {
	var gates map[string]bool
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		on, err := strconv.ParseBool(texts[name])
		if err != nil {
			return nil, fmt.Errorf("feature gate %s=%s: say true or false", name, texts[name])
		}
		if gates == nil {
			gates = map[string]bool{}
		}
		gates[name] = on
	}
	return gates, nil
}

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Name == "" || strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("cluster name %q: use lower case letters, digits and dashes", o.Name)
	case o.Workers < 1:
		return fmt.Errorf("%d workers: at least 1 is needed, because the control plane takes no pods", o.Workers)
	case len(o.Simulated) > o.Workers:
		return fmt.Errorf("%d simulated servers for %d workers: raise --workers", len(o.Simulated), o.Workers)
	}
	return nil
}

// Image is the node image, and whether it brings its own network plugin.
type Image struct {
	Ref string
	Own bool // our own image: we set up the pod network, and there is no CoreDNS
}

const podSubnet = "10.244.0.0/16"

// kindConfig is what we ask of kind.
func kindConfig(o Options, image Image) *v1alpha4.Cluster {
	cluster := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     o.Name,
		Nodes:    []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole, Image: image.Ref}},
		Networking: v1alpha4.Networking{
			IPFamily:  v1alpha4.IPv4Family,
			PodSubnet: podSubnet,
		},
		FeatureGates: o.FeatureGates,
		// Hosts with cgroup v1 are still common, in continuous integration above all.
		KubeadmConfigPatches: []string{"kind: KubeletConfiguration\nfailCgroupV1: false\n"},
	}
	for n := range o.Workers {
		node := v1alpha4.Node{Role: v1alpha4.WorkerRole, Image: image.Ref}
		if n < len(o.Simulated) && o.Simulated[n] != "" {
			node.Labels = map[string]string{SimulatedLabel: o.Simulated[n]}
		}
		cluster.Nodes = append(cluster.Nodes, node)
	}
	if image.Own {
		cluster.Networking.DisableDefaultCNI = true
		cluster.Networking.KubeProxyMode = v1alpha4.NFTablesProxyMode
		// The list replaces kind's own, which has preflight in it.
		cluster.KubeadmConfigPatches = append(cluster.KubeadmConfigPatches,
			"kind: InitConfiguration\nskipPhases: [preflight, addon/coredns]\n")
	}
	return cluster
}
