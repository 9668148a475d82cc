package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// listening wakes the publisher when the kernel says that hardware came or went.
func (p *Plugin) listening(ctx context.Context) {
	if err := p.deps.Host.Watch(ctx, p.poke); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Info("Cannot hear of hardware that comes and goes; it is looked at from time to time all the same",
			"after", p.cfg.Rescan, "err", err)
	}
}

// glancing wakes the publisher when NICs are others than they were: the kernel says
// nothing of ports, and nothing at all where the hardware is simulated.
func (p *Plugin) glancing(ctx context.Context) {
	again := time.NewTicker(p.cfg.Glance)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if _, _, changed, _ := p.readNICs(ctx); changed && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("NICs have changed")
			p.poke()
		}
	}
}

// readNICs reads the NICs and tells whether they are others than when they were last
// read, by the publisher or at a glance.
func (p *Plugin) readNICs(ctx context.Context) (nics []hardware.NIC, reasons []error, changed bool, err error) {
	nics, reasons, err = p.deps.Host.NICs(ctx)
	return nics, reasons, p.seen.changed(nics, reasons, err), err
}

// fingerprint is that of the NICs that were read last.
type fingerprint struct {
	mu  sync.Mutex
	sum [sha256.Size]byte
}

// changed takes in what was read, and tells whether it is something else than before.
// What is read first is no change.
func (f *fingerprint) changed(nics []hardware.NIC, reasons []error, err error) bool {
	raw, encodeErr := json.Marshal(nics)
	if encodeErr != nil {
		panic(encodeErr) // strings and numbers always encode
	}
	sum := sha256.Sum256(fmt.Appendf(raw, "%v %v", reasons, err))
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.sum
	f.sum = sum
	return sum != before && before != [sha256.Size]byte{}
}
