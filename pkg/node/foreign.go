package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/journal"
)

// lookTimeout is how long the publisher waits for a GPU on which a claim is being
// worked on, before it goes by what it saw last.
const lookTimeout = time.Second

// foreign finds the MIG instances that no claim made, by GPU. Under the GPU's lock
// the journal and the hardware are of one mind.
func (p *Plugin) foreign(ctx context.Context, node hardware.Node, missing map[hardware.PCIAddress]string) map[hardware.PCIAddress][]hardware.Instance {
	out := map[hardware.PCIAddress][]hardware.Instance{}
	for _, g := range node.GPUs {
		if g.MIG == nil || !g.MIG.Enabled || missing[g.PCI] != "" {
			continue
		}
		found, err := p.foreignOn(ctx, g)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				p.once.log(klog.FromContext(ctx), "Cannot tell which MIG instances no claim made", fmt.Errorf("GPU %s: %w", g.ID(), err))
			}
			found = p.model.foreign[g.PCI]
		}
		if len(found) > 0 {
			out[g.PCI] = found
		}
		for _, inst := range found {
			p.once.log(klog.FromContext(ctx), "Found a MIG instance that no claim made; it is left alone",
				fmt.Errorf("GPU %s, GPU instance %d, memory slices %d to %d", g.ID(), inst.ID, inst.Placement.Start, inst.Placement.End()-1))
		}
	}
	p.model.foreign = out // only the publisher's goroutine uses it
	return out
}

func (p *Plugin) foreignOn(ctx context.Context, g hardware.GPU) ([]hardware.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	unlock, err := p.deps.Host.Lock(ctx, []hardware.PCIAddress{g.PCI})
	if err != nil {
		return nil, err
	}
	defer unlock()
	live, err := p.deps.Host.Instances(context.WithoutCancel(ctx), g.ID())
	if err != nil {
		return nil, err
	}
	records, err := p.deps.Journal.Held(g.PCI)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(live, func(inst hardware.Instance) bool {
		return slices.ContainsFunc(records, func(r journal.Record) bool { return r.Plan.Creates(g.PCI, inst) })
	}), nil
}
