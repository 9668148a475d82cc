// Package host is the only door to a node's hardware: it discovers it, carries
// plans out, undoes them, and tells what is live. What a GPU's driver is asked
// for goes through the small interface Driver.
package host

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// Topology tells where a PCI function sits. Unknown is the zero value without an
// error; an error means that the kernel's answer could not be read.
type Topology interface {
	PCIeRoot(addr hardware.PCIAddress) (string, error)
	NUMANode(addr hardware.PCIAddress) (*int, error)
}

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

// Discover reads the model. A GPU that cannot be read is left out with the
// reason in the second result; the error is for the node as a whole.
func (h *Host) Discover(ctx context.Context) (hardware.Node, []error, error) {
	node, skipped, err := h.driver.Node(ctx)
	if err != nil {
		return hardware.Node{}, nil, fmt.Errorf("discover GPUs: %w", err)
	}
	logger := klog.FromContext(ctx)
	for i := range node.GPUs {
		g := &node.GPUs[i]
		if g.PCIeRoot, err = h.topology.PCIeRoot(g.PCI); err != nil {
			logger.V(2).Info("Published without its PCIe root", "gpu", g.PCI, "err", err)
		}
		if g.NUMANode, err = h.topology.NUMANode(g.PCI); err != nil {
			logger.V(2).Info("Published without its NUMA node", "gpu", g.PCI, "err", err)
		}
	}
	node.Sort()
	return node, skipped, nil
}

// Lock takes the locks of GPUs in the order of their addresses and returns what
// releases them. It waits for other claims and other processes as long as ctx lasts.
func (h *Host) Lock(ctx context.Context, gpus []hardware.PCIAddress) (unlock func(), err error) {
	return h.locks.take(ctx, gpus)
}

// Instances lists all GPU instances of a GPU, none if its MIG mode is off. The caller
// holds its lock.
func (h *Host) Instances(ctx context.Context, gpu hardware.GPUID) ([]hardware.Instance, error) {
	return h.driver.Instances(ctx, gpu)
}

// State reads what is live on GPUs. The caller holds their locks.
func (h *Host) State(ctx context.Context, node hardware.Node, gpus []hardware.PCIAddress) (map[hardware.PCIAddress]plan.GPUState, error) {
	out := map[hardware.PCIAddress]plan.GPUState{}
	for _, addr := range gpus {
		g, ok := node.GPU(addr)
		if !ok {
			continue // plan.New names the device
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
