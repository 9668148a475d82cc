package node

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// discover reads the hardware, says what is left out, and lets the configuration
// have its say on MIG mode and NICs.
func (p *Plugin) discover(ctx context.Context) (hardware.Node, error) {
	found, reasons, err := p.deps.Host.Discover(ctx)
	if err != nil {
		return hardware.Node{}, err
	}
	if p.cfg.NICs {
		nics, more, _, err := p.readNICs(ctx)
		if ctx.Err() != nil {
			// What is broken off must not pass for a node that has lost its NICs.
			return hardware.Node{}, fmt.Errorf("discover NICs: %w", context.Cause(ctx))
		}
		if err != nil { // the GPUs are not theirs to lose
			more = append(more, fmt.Errorf("discover NICs: %w", err))
		}
		var left []error
		found.NICs, left = withoutUplinks(nics)
		reasons = append(append(reasons, more...), left...)
		if err := p.deps.Host.Memlock(); err != nil && len(found.NICs) > 0 {
			p.once.log(klog.FromContext(ctx), "RDMA will not work as expected in containers", err)
		}
	}
	for _, reason := range reasons {
		p.once.log(klog.FromContext(ctx), "Read hardware", reason)
	}
	for _, g := range found.GPUs {
		if g.MIG != nil && p.cfg.KeepMIGMode {
			g.MIG.Switchable = false
		}
	}
	return found, nil
}

// withoutUplinks leaves out the NICs that carry the host's default route: a pod that
// has the node's own way to the network can cut the node off.
func withoutUplinks(nics []hardware.NIC) (offered []hardware.NIC, reasons []error) {
	for _, n := range nics {
		if n.Uplink {
			reasons = append(reasons, fmt.Errorf("leave out NIC %s: it carries the host's default route (interface %q)", n, n.Interface))
			continue
		}
		offered = append(offered, n)
	}
	return offered, reasons
}
