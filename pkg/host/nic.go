package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// nic reads a NIC anew: the numbers of its nodes change when its driver is bound again.
func (h *Host) nic(ctx context.Context, addr hardware.PCIAddress) (hardware.NIC, error) {
	found, reasons, err := h.topology.NICs(ctx)
	if err != nil {
		return hardware.NIC{}, fmt.Errorf("find NIC %s: %w", addr, err)
	}
	i := slices.IndexFunc(found, func(n hardware.NIC) bool { return n.PCI == addr })
	if i < 0 {
		return hardware.NIC{}, errors.Join(append([]error{fmt.Errorf("find NIC %s: %w", addr, hardware.ErrNotFound)}, reasons...)...)
	}
	return found[i], nil
}

// nicNodes are the nodes for traffic, on InfiniBand also those for management, those of
// subnet management where they were asked for, and the connection manager's.
func (h *Host) nicNodes(ctx context.Context, n plan.NIC) ([]hardware.DeviceNode, error) {
	nic, err := h.nic(ctx, n.PCI)
	if err != nil {
		return nil, err
	}
	var nodes []hardware.DeviceNode
	for _, d := range nic.RDMA {
		nodes = append(nodes, d.Verbs)
		if slices.ContainsFunc(d.Ports, func(p hardware.RDMAPort) bool { return p.LinkLayer == hardware.LinkLayerInfiniBand }) {
			nodes = append(nodes, d.Management...)
		}
		if n.ISSM {
			nodes = append(nodes, d.Subnet...)
		}
	}
	manager, err := h.topology.ConnectionManager()
	if err != nil {
		return nil, fmt.Errorf("find the node of the RDMA connection manager for NIC %s: %w", n.PCI, err)
	}
	nodes = append(nodes, manager)
	return slices.DeleteFunc(nodes, func(d hardware.DeviceNode) bool { return d.Path == "" }), nil
}
