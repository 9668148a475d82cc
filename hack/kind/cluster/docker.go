package cluster

import (
	"context"
	"fmt"
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

// removeNetwork is best effort: Docker refuses while somebody else's cluster
// is in the network, and that is right.
func removeNetwork(ctx context.Context) {
	_, _ = command.Output(ctx, "docker", "network", "rm", networkName)
}
