package node

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/slices"
)

const (
	// debounce gathers what comes close together into one publication.
	debounce = time.Second
	// rescan is how often hardware is looked at without any event.
	rescan = time.Minute
)

// retry is how soon hardware is looked at again while it cannot be read: a
// driver that is still being installed takes minutes.
func retry() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}
}

// publishing owns corridor (a), from hardware to slices. It is the only
// goroutine that discovers and publishes; everybody else wakes it.
func (p *Plugin) publishing(ctx context.Context) {
	backoff := retry()
	for {
		next := rescan
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			next = backoff.Step()
			p.deps.Metrics.PublishError()
			klog.FromContext(ctx).Error(err, "Publish GPUs, will try again", "after", next)
		} else {
			backoff = retry()
		}
		if !p.pause(ctx, next) {
			return
		}
	}
}

// publish walks from hardware to slices once.
func (p *Plugin) publish(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	found, skipped, err := p.deps.Host.Discover(ctx)
	if err != nil {
		p.model.failed(err)
		return err
	}
	for _, reason := range skipped {
		p.once.log(logger, "Left a GPU out", reason)
	}
	before, _ := p.model.get()
	for _, g := range missing(before, found) {
		p.once.log(logger, "A published GPU is gone; it stays published, and preparing it will fail",
			fmt.Errorf("GPU %s: not found", g.ID()))
	}
	node := p.model.update(found)
	p.deps.Metrics.GPUs(len(node.GPUs))
	resources, err := slices.Build(node, p.pool())
	if err != nil {
		return fmt.Errorf("build ResourceSlices (the last good ones stay): %w", err)
	}
	p.model.publish(resources.Pools)
	p.ready.want(resources)
	if err := p.helper.PublishResources(ctx, resources); err != nil {
		return fmt.Errorf("publish ResourceSlices: %w", err)
	}
	return nil
}

// pool is what shapes the pool besides the hardware. What claims hold must stay
// in it; where the API server drops counters, slices go all the same, because
// there nothing keeps the scheduler from giving overlapping ones away.
func (p *Plugin) pool() slices.Options {
	opts := slices.Options{NodeName: p.cfg.NodeName, Partitions: p.partitions.Load()}
	if opts.Partitions {
		records, _ := p.deps.Journal.All() // those that cannot be read are said at start
		for _, rec := range records {
			for _, d := range rec.Plan.Devices {
				opts.Held = append(opts.Held, d.Name)
			}
		}
	}
	return opts
}

// pause waits for a wake-up, debounced, or for d; false means that ctx is done.
func (p *Plugin) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-p.wake:
	}
	settle := time.NewTimer(debounce)
	defer settle.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-settle.C:
		return true
	}
}

// poke wakes the publisher; wake-ups that nobody has seen yet are one.
func (p *Plugin) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
