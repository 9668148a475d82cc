package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const poll = 500 * time.Millisecond

// waitForDevices waits until each simulated node offers devices, since the driver
// may have been installed a moment ago.
func (s *show) waitForDevices(ctx context.Context) error {
	nodes, err := s.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "cleave.dev/simulated"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("no node has the label cleave.dev/simulated: the demo wants a cluster with simulated GPUs, as `make demo` makes it")
	}
	var missing []string
	counts := map[string]int{}
	look := func(ctx context.Context) (bool, error) {
		published, err := s.cluster.Published(ctx)
		if err != nil {
			return false, err
		}
		clear(counts)
		for _, d := range published {
			counts[d.Node]++
		}
		missing = nil
		for _, n := range nodes.Items {
			if counts[n.Name] == 0 {
				missing = append(missing, n.Name)
			}
		}
		return len(missing) == 0, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, poll, s.timeout, true, look); err != nil {
		return fmt.Errorf("wait until every simulated node offers devices: nothing from %s: %w; see kubectl -n cleave-system get pods",
			strings.Join(missing, ", "), err)
	}
	for _, n := range nodes.Items {
		fmt.Fprintf(s.out, "%s (%s) offers %d devices\n", n.Name, n.Labels["cleave.dev/simulated"], counts[n.Name])
	}
	return nil
}
