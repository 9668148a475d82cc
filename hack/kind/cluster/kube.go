package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// node is what we need to know of a Kubernetes node.
type node struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (n node) ready() bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

func (n node) address() string {
	for _, address := range n.Status.Addresses {
		if address.Type == "InternalIP" {
			return address.Address
		}
	}
	return ""
}

// nodesOf asks the API server, from inside the control plane's container: that
// needs neither kubectl nor a kubeconfig on this machine.
func nodesOf(ctx context.Context, cluster string) ([]node, error) {
	var list struct {
		Items []node `json:"items"`
	}
	return list.Items, kubectl(ctx, cluster, &list, "get", "nodes", "--output=json")
}

func kubectl(ctx context.Context, cluster string, into any, args ...string) error {
	args = append([]string{"docker", "exec", cluster + "-control-plane",
		"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--request-timeout=10s"}, args...)
	text, err := command.Output(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("parse kubectl's answer: %w", err)
	}
	return nil
}
