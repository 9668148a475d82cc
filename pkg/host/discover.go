package host

import (
	"context"
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
	// Uevents calls event with the subsystem of each device that came, went or changed,
	// or with none if messages were lost, until ctx is done.
	Uevents(ctx context.Context, event func(subsystem string)) error
}

// Discover reads the model of the GPUs; NICs has the NICs. A GPU that cannot be read is
// left out with the reason in the second result; the error is for the node as a whole.
func (h *Host) Discover(ctx context.Context) (hardware.Node, []error, error) {
	node, skipped, err := h.driver.Node(ctx)
	if err != nil {
		return hardware.Node{}, nil, fmt.Errorf("discover GPUs: %w", err)
	}
	for i := range node.GPUs {
		h.place(ctx, &node.GPUs[i])
	}
	node.Sort()
	return node, skipped, nil
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
