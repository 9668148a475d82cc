package node

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// debounce gathers what comes close together into one publication.
const debounce = time.Second

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
		next := p.cfg.Rescan
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			next = backoff.Step()
			p.deps.Metrics.PublishError()
			klog.FromContext(ctx).Error(err, "Publish GPUs, will try again", "after", next)
		} else {
			backoff = retry()
		}
		if p.cfg.Settled != nil {
			p.cfg.Settled()
		}
		if !p.pause(ctx, next) {
			return
		}
	}
}

// publish walks from hardware to slices once.
func (p *Plugin) publish(ctx context.Context) error {
	if err := p.probe(ctx); err != nil {
		return err
	}
	records, _ := p.deps.Journal.All() // those that cannot be read are said at start
	held := holders(records)
	found, err := p.discover(ctx, held)
	if err != nil {
		p.model.failed(err)
		return err
	}
	node, missing := p.model.update(found.Node, held, time.Now())
	for addr := range found.unwanted {
		if _, published := node.NIC(addr); published {
			missing[addr] = "left-out"
		}
	}
	p.deps.Metrics.GPUs(len(found.GPUs))
	refused, err := p.rival(ctx, node)
	if err != nil {
		return err
	}
	if refused != nil && len(records) == 0 {
		node.GPUs, node.NICs = nil, nil
	}
	resources, err := slices.Build(node, p.pool(ctx, node, found.rails, missing, records, refused != nil))
	if err != nil {
		return fmt.Errorf("build ResourceSlices (the last good ones stay): %w", err)
	}
	p.model.publish(resources.Pools)
	p.ready.want(resources, refused)
	p.ready.compare(&p.live)
	if err := p.helper.PublishResources(ctx, resources); err != nil {
		return fmt.Errorf("publish ResourceSlices: %w", err)
	}
	return nil
}

// holders tells of a GPU or NIC whether any claim has a device on it.
func holders(records []journal.Record) func(hardware.PCIAddress) bool {
	held := map[hardware.PCIAddress]bool{}
	for _, rec := range records {
		for _, address := range rec.Plan.Addresses() {
			held[address] = true
		}
	}
	return func(address hardware.PCIAddress) bool { return held[address] }
}

// shape is what of the configuration, and of the API server, shapes the pools.
func (p *Plugin) shape(rails map[hardware.PCIAddress]int) slices.Options {
	return slices.Options{
		NodeName:      p.cfg.NodeName,
		Partitions:    !p.dropped.has(featurePartitionableDevices),
		Taintless:     p.dropped.has(featureDeviceTaints),
		ServeExisting: p.cfg.ServeExisting,
		Pairs:         p.cfg.Pairs,
		NICSharing:    p.cfg.NICSharing,
		Rails:         rails,
	}
}

// pool is what shapes the pools besides the hardware. What claims hold must stay
// in them; where the API server drops counters, slices go all the same, because
// there nothing keeps the scheduler from giving overlapping ones away. Where another
// driver offers the GPUs, too, what is left of them is only there to be given back.
func (p *Plugin) pool(ctx context.Context, node hardware.Node, rails map[hardware.PCIAddress]int, missing map[hardware.PCIAddress]string, records []journal.Record, rival bool) slices.Options {
	opts := p.shape(rails)
	opts.Existing = p.foreign(ctx, node, missing)
	opts.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{}
	opts.NICTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{}
	opts.BusyNICs = map[hardware.PCIAddress]bool{}
	opts.HeldPools = map[string]string{}
	for addr, why := range missing {
		p.once.log(klog.FromContext(ctx), "A published device is missing: tainted, and withdrawn once nobody can hold it",
			fmt.Errorf("%s: %s", addr, why))
		if _, ok := node.NIC(addr); ok {
			taint(opts.NICTaints, addr, TaintNICMissing, why)
			continue
		}
		taint(opts.GPUTaints, addr, TaintGPUMissing, why)
	}
	if rival {
		for _, g := range node.GPUs {
			taint(opts.GPUTaints, g.PCI, TaintRival, "")
		}
	}
	for _, rec := range records {
		for _, d := range rec.Plan.Devices {
			if d.NIC != nil {
				opts.BusyNICs[d.NIC.PCI] = true
			}
			if opts.Partitions || d.GPU.PCI == "" {
				opts.Held = append(opts.Held, d.Name)
				opts.HeldPools[d.Name] = d.Pool
			}
		}
	}
	return opts
}

// taint keeps new claims from a GPU or NIC.
func taint(taints map[hardware.PCIAddress][]resourceapi.DeviceTaint, addr hardware.PCIAddress, key, value string) {
	taints[addr] = append(taints[addr], resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffectNoSchedule})
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
