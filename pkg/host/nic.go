package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// errExclusiveRDMA is why a node offers no NICs.
var errExclusiveRDMA = errors.New("no NICs are offered: the RDMA subsystem is in exclusive mode, in which a container needs its NIC moved into its network namespace; \"rdma system set netns shared\" or the kernel module option \"ib_core netns_mode=1\" changes that")

// NICs are those that containers can use, in the order of their addresses; whether they
// are offered is not decided here. One that cannot be read is left out with the reason
// in the second result. In the exclusive RDMA mode there are none.
func (h *Host) NICs(ctx context.Context) ([]hardware.NIC, []error, error) {
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
	return found, reasons, nil
}

// nicNodes are the nodes of a plan's NICs, by the device's index. NICs are read anew,
// once: the numbers of their nodes change when a driver is bound again.
func (h *Host) nicNodes(ctx context.Context, p plan.Plan) (map[int][]hardware.DeviceNode, error) {
	if !slices.ContainsFunc(p.Devices, func(d plan.Device) bool { return d.NIC != nil }) {
		return nil, nil
	}
	found, reasons, err := h.topology.NICs(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the claim's NICs: %w", err)
	}
	manager, err := h.topology.ConnectionManager()
	if err != nil {
		return nil, fmt.Errorf("find the node of the RDMA connection manager: %w", err)
	}
	out := map[int][]hardware.DeviceNode{}
	for i, d := range p.Devices {
		if d.NIC == nil {
			continue
		}
		at := slices.IndexFunc(found, func(n hardware.NIC) bool { return n.PCI == d.NIC.PCI })
		if at < 0 {
			return nil, errors.Join(append([]error{fmt.Errorf("device %s: find NIC %s: %w", d.Name, d.NIC.PCI, hardware.ErrNotFound)}, reasons...)...)
		}
		out[i] = append(rdmaNodes(found[at], d.NIC.ISSM), manager)
	}
	return out, nil
}

// rdmaNodes are the nodes for traffic, on InfiniBand also those for management, and
// those of subnet management where they were asked for.
func rdmaNodes(n hardware.NIC, subnet bool) []hardware.DeviceNode {
	var nodes []hardware.DeviceNode
	for _, d := range n.RDMA {
		if d.Verbs.Path != "" {
			nodes = append(nodes, d.Verbs)
		}
		if slices.ContainsFunc(d.Ports, func(p hardware.RDMAPort) bool { return p.LinkLayer == hardware.LinkLayerInfiniBand }) {
			nodes = append(nodes, d.Management...)
		}
		if subnet {
			nodes = append(nodes, d.Subnet...)
		}
	}
	return nodes
}
