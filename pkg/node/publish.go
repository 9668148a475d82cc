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
	found, err := p.discover(ctx)
	if err != nil {
		p.model.failed(err)
		return err
	}
	records, _ := p.deps.Journal.All() // those that cannot be read are said at start
	node, missing := p.model.update(found, holders(records), time.Now())
	p.deps.Metrics.GPUs(len(found.GPUs))
	refused, err := p.rival(ctx, node)
	if err != nil {
		return err
	}
	if refused != nil && len(records) == 0 {
		node.GPUs, node.NICs = nil, nil
	}
	opts := p.pool(ctx, node, missing, records)
	if refused != nil {
		for _, g := range node.GPUs {
			opts.GPUTaints[g.PCI] = append(opts.GPUTaints[g.PCI], resourceapi.DeviceTaint{Key: TaintRival, Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
	}
	resources, err := slices.Build(node, opts)
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

// discover reads the hardware, says what is left out, and lets the configuration
// have its say on MIG mode.
func (p *Plugin) discover(ctx context.Context) (hardware.Node, error) {
	found, skipped, err := p.deps.Host.Discover(ctx)
	if err != nil {
		return hardware.Node{}, err
	}
	for _, reason := range skipped {
		p.once.log(klog.FromContext(ctx), "Read hardware", reason)
	}
	if !p.cfg.NICs {
		found.NICs = nil
	}
	for _, g := range found.GPUs {
		if g.MIG != nil && p.cfg.KeepMIGMode {
			g.MIG.Switchable = false
		}
	}
	return found, nil
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

// pool is what shapes the pool besides the hardware. What claims hold must stay
// in it; where the API server drops counters, slices go all the same, because
// there nothing keeps the scheduler from giving overlapping ones away.
func (p *Plugin) pool(ctx context.Context, node hardware.Node, missing map[hardware.PCIAddress]string, records []journal.Record) slices.Options {
	opts := slices.Options{
		NodeName:      p.cfg.NodeName,
		Partitions:    !p.dropped.has(featurePartitionableDevices),
		Taintless:     p.dropped.has(featureDeviceTaints),
		Lists:         !p.dropped.has(featureListTypeAttributes),
		Existing:      p.foreign(ctx, node, missing),
		ServeExisting: p.cfg.ServeExisting,
		GPUTaints:     map[hardware.PCIAddress][]resourceapi.DeviceTaint{},
		NICTaints:     map[hardware.PCIAddress][]resourceapi.DeviceTaint{},
		Pairs:         p.cfg.Pairs,
		NICSharing:    p.cfg.NICSharing,
		Rails:         hardware.Rails(node, p.cfg.Rails),
		BusyNICs:      map[hardware.PCIAddress]bool{},
		HeldPools:     map[string]string{},
	}
	for addr, why := range missing {
		p.once.log(klog.FromContext(ctx), "A published device is missing: tainted, and withdrawn once nobody can hold it",
			fmt.Errorf("%s: %s", addr, why))
		if _, ok := node.NIC(addr); ok {
			opts.NICTaints[addr] = []resourceapi.DeviceTaint{{Key: TaintNICMissing, Value: why, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			continue
		}
		opts.GPUTaints[addr] = []resourceapi.DeviceTaint{{Key: TaintGPUMissing, Value: why, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
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
