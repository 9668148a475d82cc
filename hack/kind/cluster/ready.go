package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// awaitReady returns once all nodes are Ready and reach Services.
func (c *Cluster) awaitReady(ctx context.Context, o Options, patience time.Duration) error {
	defer c.log.Watch("waiting for all nodes to be ready", nil)()
	return poll(ctx, patience, func(ctx context.Context) error {
		nodes, err := nodesOf(ctx, o.Name)
		if err != nil {
			return err
		}
		if err := allReady(nodes, o.Workers+1); err != nil {
			return err
		}
		return proxyReady(ctx, o)
	})
}

func allReady(nodes []node, want int) error {
	if len(nodes) != want {
		return fmt.Errorf("%d of %d nodes have joined", len(nodes), want)
	}
	var waiting []string
	for _, n := range nodes {
		if !n.ready() {
			waiting = append(waiting, n.Metadata.Name)
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(waiting, ", "))
	}
	return nil
}

func proxyReady(ctx context.Context, o Options) error {
	var proxy struct {
		Status struct {
			NumberReady int `json:"numberReady"`
		} `json:"status"`
	}
	err := kubectl(ctx, o.Name, &proxy, "get", "daemonset", "kube-proxy", "--namespace=kube-system", "--output=json")
	if err != nil {
		return err
	}
	if proxy.Status.NumberReady != o.Workers+1 {
		return fmt.Errorf("kube-proxy runs on %d of %d nodes", proxy.Status.NumberReady, o.Workers+1)
	}
	return nil
}

// poll repeats check until it succeeds, and returns its last error if it never
// does.
func poll(ctx context.Context, patience time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	ticks := time.NewTicker(500 * time.Millisecond)
	defer ticks.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-ticks.C:
		}
	}
}
