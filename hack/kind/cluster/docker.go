package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// networkName is the Docker network that kind puts all its clusters in.
const networkName = "kind"

type container struct{ name, state string }

// containersOf lists the node containers of a cluster, stopped ones too.
func containersOf(ctx context.Context, cluster string) ([]container, error) {
	text, err := command.Output(ctx, "docker", "ps", "--all", "--filter", "label=io.x-k8s.kind.cluster="+cluster,
		"--format", "{{.Names}} {{.State}}")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var all []container
	for line := range strings.Lines(text) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, container{name: name, state: state})
	}
	return all, nil
}

func removeContainers(ctx context.Context, cluster string) error {
	all, err := containersOf(ctx, cluster)
	if err != nil || len(all) == 0 {
		return err
	}
	args := []string{"docker", "rm", "--force", "--volumes"}
	for _, node := range all {
		args = append(args, node.name)
	}
	if _, err := command.Output(ctx, args...); err != nil {
		return fmt.Errorf("remove nodes: %w", err)
	}
	return nil
}

// networkMark is there if kind's network came with one of our clusters.
func (c *Cluster) networkMark() string { return c.store.Path("clusters", "owns-network") }

// claimNetwork notes whether the network that kind is about to make is new.
func (c *Cluster) claimNetwork(ctx context.Context) error {
	if _, err := command.Output(ctx, "docker", "network", "inspect", networkName); err == nil {
		return nil
	}
	if err := os.WriteFile(c.networkMark(), nil, 0o644); err != nil {
		return fmt.Errorf("note that Docker's network %s is ours: %w", networkName, err)
	}
	return nil
}

// removeNetwork removes the network if it came with one of our clusters and
// none is left in it. Otherwise Docker refuses, and that is right.
func (c *Cluster) removeNetwork(ctx context.Context) error {
	if _, err := os.Stat(c.networkMark()); err != nil {
		return nil
	}
	if _, err := command.Output(ctx, "docker", "network", "rm", networkName); err != nil {
		return nil
	}
	return os.Remove(c.networkMark())
}
