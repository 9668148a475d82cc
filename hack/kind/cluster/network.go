package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// networkLayout changes when the files below do, so that clusters with old
// ones are made anew.
const networkLayout = "network 1"

const (
	cniPath    = "/etc/cni/net.d/10-cleave.conflist"
	scriptPath = "/kind/cleave-network.sh" // run by cleave-network.service after a restart
)

// connect gives every node routes to the pods of the others, and its own pod
// network if it has none yet.
//
// It runs on clusters that are there, too: when Docker restarts, the nodes may
// come back with each other's addresses.
func (c *Cluster) connect(ctx context.Context, o Options) error {
	defer c.log.Watch("connecting the nodes' pod networks", nil)()
	var members []node
	err := poll(ctx, time.Minute, func(ctx context.Context) (err error) {
		members, err = nodesOf(ctx, o.Name)
		if err != nil {
			return err
		}
		return addressed(members, o.Workers+1)
	})
	if err != nil {
		return fmt.Errorf("wait for the nodes' addresses: %w", err)
	}
	containers, err := c.kind.ListInternalNodes(o.Name)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	byName := map[string]nodes.Node{}
	for _, container := range containers {
		byName[container.String()] = container
	}
	var group errgroup.Group
	for _, member := range members {
		group.Go(func() error { return install(ctx, byName[member.Metadata.Name], member, members) })
	}
	return group.Wait()
}

func addressed(members []node, want int) error {
	if len(members) != want {
		return fmt.Errorf("%d of %d nodes have joined", len(members), want)
	}
	for _, m := range members {
		if m.Spec.PodCIDR == "" || m.address() == "" {
			return fmt.Errorf("node %s has no pod network yet", m.Metadata.Name)
		}
	}
	return nil
}

func install(ctx context.Context, container nodes.Node, member node, members []node) error {
	name := member.Metadata.Name
	if container == nil {
		return fmt.Errorf("node %s has no container", name)
	}
	conflist, err := conflist(member.Spec.PodCIDR)
	if err != nil {
		return err
	}
	if err := nodeutils.WriteFile(container, scriptPath, routes(member, members)); err != nil {
		return fmt.Errorf("write routes of %s: %w", name, err)
	}
	if err := container.CommandContext(ctx, "sh", scriptPath).Run(); err != nil {
		return fmt.Errorf("set routes of %s: %w", name, err)
	}
	if container.CommandContext(ctx, "test", "-s", cniPath).Run() == nil {
		return nil // pods may be using it, and a node's pod network never changes
	}
	// Last, because with this file the node turns Ready.
	if err := nodeutils.WriteFile(container, cniPath, conflist); err != nil {
		return fmt.Errorf("write pod network of %s: %w", name, err)
	}
	return nil
}

// conflist is the network configuration of one node, in CNI's format.
func conflist(podCIDR string) (string, error) {
	type object = map[string]any
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "cleave",
		"plugins": []object{
			{
				"type": "ptp",
				"ipam": object{
					"type":    "host-local",
					"dataDir": "/run/cni-ipam-state",
					"ranges":  [][]object{{{"subnet": podCIDR}}},
					"routes":  []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode CNI configuration: %w", err)
	}
	return string(text) + "\n", nil
}

// routes is the script by which one node reaches the pods of the others, and
// its own pods the outside. It may run again and again.
func routes(self node, members []node) string {
	var script strings.Builder
	script.WriteString("set -eu\nsysctl -q -w net.ipv4.ip_forward=1\n")
	for _, peer := range members {
		if peer.Metadata.Name != self.Metadata.Name {
			fmt.Fprintf(&script, "ip route replace %s via %s\n", peer.Spec.PodCIDR, peer.address())
		}
	}
	fmt.Fprintf(&script, `nft -f - <<EOF
table ip cleave
delete table ip cleave
table ip cleave {
  chain postrouting {
    type nat hook postrouting priority 100;
    ip saddr %s ip daddr != %s oifname "eth0" masquerade
  }
}
EOF
`, self.Spec.PodCIDR, podSubnet)
	return script.String()
}
