// Package host is the only door to a node's hardware: it discovers it, carries
// plans out, undoes them, and tells what is live. What a GPU's driver is asked
// for goes through the small interface Driver.
package host

import (
	"context"
	"errors"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// Host is one node's hardware.
type Host struct {
	driver   Driver
	topology Topology
	locks    *locks
}

// New returns a Host; lockDir holds the lock files by which several processes
// on the node stay out of each other's way. It starts and touches nothing.
func New(driver Driver, topology Topology, lockDir string) *Host {
	return &Host{driver: driver, topology: topology, locks: newLocks(lockDir)}
}

// Lock takes the locks of GPUs and NICs in the order of their addresses and returns what
// releases them. It waits for other claims and other processes as long as ctx lasts.
func (h *Host) Lock(ctx context.Context, devices []hardware.PCIAddress) (unlock func(), err error) {
	return h.locks.take(ctx, devices)
}

// Instances lists all GPU instances of a GPU, none if its MIG mode is off. The caller
// holds its lock.
func (h *Host) Instances(ctx context.Context, gpu hardware.GPUID) ([]hardware.Instance, error) {
	return h.driver.Instances(ctx, gpu)
}

// State reads what is live on GPUs, and passes over devices that are none. The caller
// holds their locks.
func (h *Host) State(ctx context.Context, node hardware.Node, gpus []hardware.PCIAddress) (map[hardware.PCIAddress]plan.GPUState, error) {
	out := map[hardware.PCIAddress]plan.GPUState{}
	for _, addr := range gpus {
		g, ok := node.GPU(addr)
		if !ok {
			continue // a NIC, or gone: then plan.New names the device
		}
		state, err := h.state(ctx, g)
		if err != nil {
			return nil, err
		}
		out[addr] = state
	}
	return out, nil
}

func (h *Host) state(ctx context.Context, g hardware.GPU) (plan.GPUState, error) {
	var state plan.GPUState
	var err error
	state.ComputeMode, err = h.driver.ComputeMode(ctx, g.ID())
	if err != nil && !errors.Is(err, hardware.ErrNotSupported) {
		return plan.GPUState{}, err
	}
	if g.MIG == nil {
		return state, nil
	}
	if state.MIGEnabled, _, err = h.driver.MIGMode(ctx, g.ID()); err != nil {
		return plan.GPUState{}, err
	}
	if state.MIGEnabled {
		state.Instances, err = h.driver.Instances(ctx, g.ID())
	}
	return state, err
}
