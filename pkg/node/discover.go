package node

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// discovery is what was found of the hardware and is offered, or held by claims.
type discovery struct {
	hardware.Node
	// rails are those of all NICs, offered or not.
	rails map[hardware.PCIAddress]int
	// unwanted are the NICs that the configuration leaves out. The node has them only
	// if a claim holds them.
	unwanted map[hardware.PCIAddress]bool
}

// discover reads the hardware, says what is left out, and lets the configuration
// have its say on MIG mode and NICs.
func (p *Plugin) discover(ctx context.Context, held func(hardware.PCIAddress) bool) (discovery, error) {
	node, reasons, err := p.deps.Host.Discover(ctx)
	if err != nil {
		return discovery{}, err
	}
	found := discovery{Node: node}
	for _, g := range found.GPUs {
		if g.MIG != nil && p.cfg.KeepMIGMode {
			g.MIG.Switchable = false
		}
	}
	if p.cfg.NICs {
		nics, more, _, err := p.readNICs(ctx)
		if err != nil { // the GPUs are not theirs to lose
			more = append(more, fmt.Errorf("discover NICs: %w", err))
		}
		found.NICs = nics
		found.rails = p.model.rails(found.Node, p.cfg.Rails)
		reasons = append(append(reasons, more...), p.offer(ctx, &found, held)...)
		if ctx.Err() != nil {
			// What is broken off must not pass for a node that has lost its NICs.
			return discovery{}, fmt.Errorf("discover NICs: %w", context.Cause(ctx))
		}
	}
	for _, reason := range reasons {
		p.once.log(klog.FromContext(ctx), "Read hardware", reason)
	}
	return found, nil
}

// offer leaves out the NICs that are not wanted. What claims hold stays, to be tainted.
func (p *Plugin) offer(ctx context.Context, found *discovery, held func(hardware.PCIAddress) bool) []error {
	var reasons []error
	found.unwanted, reasons = p.unwanted(ctx, *found)
	found.NICs = slices.DeleteFunc(slices.Clone(found.NICs), func(n hardware.NIC) bool { return found.unwanted[n.PCI] && !held(n.PCI) })
	if err := p.deps.Host.Memlock(); err != nil && len(found.NICs) > 0 {
		p.once.log(klog.FromContext(ctx), "RDMA will not work as expected in containers", err)
	}
	return reasons
}

// unwanted are the NICs that are not offered: what the filter says, and without one those
// that carry the host's default route, since a pod that has the node's own way to the
// network can cut the node off. The reasons are what a person should know of it.
func (p *Plugin) unwanted(ctx context.Context, found discovery) (map[hardware.PCIAddress]bool, []error) {
	if p.filter.expression != "" {
		return p.filter.unwanted(ctx, found.NICs, pool.NICs(found.Node, p.shape(found.rails)))
	}
	out := map[hardware.PCIAddress]bool{}
	var reasons []error
	for _, n := range found.NICs {
		if n.Uplink {
			out[n.PCI] = true
			reasons = append(reasons, fmt.Errorf("leave out NIC %s: it carries the host's default route (interface %q)", n, n.Interface))
		}
	}
	return out, reasons
}
