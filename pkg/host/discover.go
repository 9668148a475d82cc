package host

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Topology is what the kernel knows of PCI functions. Unknown is the zero value
// without an error; an error means that the kernel's answer could not be read.
type Topology interface {
	PCIeRoot(addr hardware.PCIAddress) (string, error)
	// NUMANodes are the function's node and the others of its socket nearest to that.
	NUMANodes(addr hardware.PCIAddress) (node *int, near []int, err error)
	Bridges(addr hardware.PCIAddress) ([]hardware.PCIAddress, error)
	// NICs are those that can do RDMA. One that cannot be read is left out, with the
	// reason in the second result; the error is for the node as a whole.
	NICs(ctx context.Context) ([]hardware.NIC, []error, error)
	// ConnectionManager is the node of the RDMA connection manager, which all NICs share.
	ConnectionManager() (hardware.DeviceNode, error)
	// ExclusiveRDMA tells that every RDMA device belongs to one network namespace.
	ExclusiveRDMA() (bool, error)
}

// errExclusiveRDMA is why a node offers no NICs.
var errExclusiveRDMA = errors.New("no NICs are offered: the RDMA subsystem is in exclusive mode, in which a container needs its NIC moved into its network namespace; \"rdma system set netns shared\" or the kernel module option \"ib_core netns_mode=1\" changes that")

// Discover reads the model. A GPU or NIC that cannot be read or is not offered is
// left out with the reason in the second result, and so are all NICs where they cannot
// be read at all: the GPUs are not theirs to lose. The error is for the node as a whole.
func (h *Host) Discover(ctx context.Context) (hardware.Node, []error, error) {
	node, skipped, err := h.driver.Node(ctx)
	if err != nil {
		return hardware.Node{}, nil, fmt.Errorf("discover GPUs: %w", err)
	}
	for i := range node.GPUs {
		h.place(ctx, &node.GPUs[i])
	}
	nics, reasons, err := h.nics(ctx)
	if ctx.Err() != nil {
		return hardware.Node{}, nil, fmt.Errorf("discover NICs: %w", context.Cause(ctx))
	}
	if err != nil {
		reasons = append(reasons, fmt.Errorf("discover NICs: %w", err))
	}
	node.NICs = nics
	node.Sort()
	return node, append(skipped, reasons...), nil
}

// place fills in where a GPU sits.
func (h *Host) place(ctx context.Context, g *hardware.GPU) {
	logger := klog.FromContext(ctx)
	var err error
	if g.PCIeRoot, err = h.topology.PCIeRoot(g.PCI); err != nil {
		logger.V(2).Info("Published without its PCIe root", "gpu", g.PCI, "err", err)
	}
	if g.NUMANode, g.NUMANear, err = h.topology.NUMANodes(g.PCI); err != nil {
		logger.V(2).Info("Published without its NUMA node", "gpu", g.PCI, "err", err)
	}
	if g.Bridges, err = h.topology.Bridges(g.PCI); err != nil {
		logger.V(2).Info("Published without its PCI bridges", "gpu", g.PCI, "err", err)
	}
}

// nics are those that are offered.
func (h *Host) nics(ctx context.Context) ([]hardware.NIC, []error, error) {
	found, reasons, err := h.topology.NICs(ctx)
	if err != nil || len(found)+len(reasons) == 0 {
		return nil, nil, err
	}
	exclusive, err := h.topology.ExclusiveRDMA()
	if err != nil {
		return nil, nil, err
	}
	if exclusive {
		return nil, []error{errExclusiveRDMA}, nil
	}
	filter := h.NICFilter
	if filter == nil {
		filter = withoutUplinks
	}
	var offered []hardware.NIC
	for _, n := range found {
		ok, err := filter(ctx, n)
		if err != nil {
			reasons = append(reasons, fmt.Errorf("leave out NIC %s: %w", n, err))
		}
		if ok && err == nil {
			offered = append(offered, n)
		}
	}
	return offered, reasons, nil
}

// withoutUplinks is the filter of a host without one. A pod that has the node's own
// way to the network can cut the node off.
func withoutUplinks(_ context.Context, n hardware.NIC) (bool, error) {
	if n.Uplink {
		return false, fmt.Errorf("it carries the host's default route (interface %q)", n.Interface)
	}
	return true, nil
}
