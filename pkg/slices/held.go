package slices

import (
	"errors"
	stdslices "slices"
	"strings"

	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// checkOptions finds options that exclude each other.
func (b *builder) checkOptions() error {
	if b.opts.Pairs && b.opts.NICSharing == NICByBandwidth {
		return errors.New("NICs cannot be shared by bandwidth and be in pairs with GPUs: a device that takes several claims cannot have counters; switch one of the two off")
	}
	return nil
}

// drainFirst is what to do where a claim holds what pairs come or go with.
const drainFirst = "pairs are switched on or off on nodes without claims only, so drain the node first"

// checkHeld finds devices that claims hold and that the pools would withdraw, or
// offer in another pool, although their GPU or NIC is there. If the hardware itself
// is gone, so are its counters, and nothing of it can be given away twice.
func (b *builder) checkHeld(pools map[string]resourceslice.Pool) error {
	published := map[string]string{}
	for pool, content := range pools {
		for _, slice := range content.Slices {
			for _, d := range slice.Devices {
				published[d.Name] = pool
			}
		}
	}
	var p problems
	for _, name := range b.opts.Held {
		pool, ok := published[name]
		switch was := b.opts.HeldPools[name]; {
		case !ok && b.pairIsOff(name):
			p.add("device %s: a claim holds it, and pairs of GPUs and NICs are switched off; %s", name, drainFirst)
		case !ok && b.present(name):
			p.add("device %s: a claim holds it, so it cannot be withdrawn", name)
		case ok && was != "" && was != pool:
			p.add("device %s: a claim holds it in pool %s, so it cannot move to pool %s; %s", name, was, pool, drainFirst)
		}
	}
	return errors.Join(p...)
}

// pairIsOff tells whether a name is that of a pair that would be there.
func (b *builder) pairIsOff(name string) bool {
	return !b.pairs && stdslices.ContainsFunc(b.gpus, func(g gpu) bool {
		return stdslices.ContainsFunc(g.near, func(n hardware.NIC) bool { return name == hardware.PairName(g.GPU, n) })
	})
}

// present tells whether the hardware is there of which a device is all or a part.
func (b *builder) present(name string) bool {
	for _, g := range b.gpus {
		if name == g.DeviceName() || strings.HasPrefix(name, g.DeviceName()+"-") {
			return true
		}
	}
	for _, n := range b.nics {
		if name == n.DeviceName() {
			return true
		}
	}
	return false
}
