package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// NICs are the PCI functions that can do RDMA, those that have an RDMA device: in
// ascending order of their address, physical functions and the virtual ones that
// exist. A function without a driver, or whose driver does no RDMA, is not one.
//
// A NIC that cannot be read in full, which may still be on its way, is left out, and
// so is one that the host itself has made part of a bond or a bridge. The second
// result has the reasons and what else a person should know; the error is for the
// machine as a whole.
func (t Tree) NICs(ctx context.Context) ([]hardware.NIC, []error, error) {
	names, err := t.list("bus/pci/devices")
	if err != nil {
		return nil, nil, fmt.Errorf("list PCI functions: %w", err)
	}
	uplinks, err := t.uplinks()
	if err != nil {
		return nil, nil, err
	}
	nodes, notes := t.deviceNodes()
	var found []function
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		addr, err := hardware.ParsePCIAddress(name)
		if err != nil {
			continue
		}
		devices, err := t.list(path.Join(device(addr), "infiniband"))
		if err == nil && len(devices) == 0 {
			continue
		}
		f := function{nic: hardware.NIC{PCI: addr}, left: err}
		if err == nil {
			f.left = t.readFunction(&f, devices, nodes, uplinks)
		}
		found = append(found, f)
	}
	followVirtual(found)
	var nics []hardware.NIC
	for _, f := range found {
		if f.left != nil {
			notes = append(notes, fmt.Errorf("leave out NIC %s: %w", f.nic.PCI, f.left))
			continue
		}
		notes = append(notes, f.notes...)
		nics = append(nics, f.nic)
	}
	return nics, notes, nil
}

// function is a NIC as far as it was read.
type function struct {
	nic   hardware.NIC
	left  error // why it is left out
	notes []error
	// partOf is the bond or bridge that an interface of it belongs to.
	partOf error
}

// readFunction reads what the NIC cannot do without; its error is why it is left out.
func (t Tree) readFunction(f *function, devices []string, nodes rdmaNodes, uplinks map[string]bool) error {
	n := &f.nic
	var err error
	if n.Parent, err = t.physicalFunction(n.PCI); err != nil {
		return err
	}
	interfaces, err := t.interfaces(n.PCI)
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		n.Uplink = n.Uplink || uplinks[i.name]
		if i.master != "" && f.partOf == nil {
			f.partOf = fmt.Errorf("its interface %s is part of %s", i.name, i.master)
		}
	}
	if len(interfaces) > 0 {
		n.Interface = interfaces[0].name
	}
	f.notes = t.place(n)
	if f.partOf != nil {
		return f.partOf
	}
	n.RDMA, err = t.rdmaDevices(n.PCI, devices, nodes)
	return err
}

// place fills in where the NIC sits, and tells what of it is unreadable.
func (t Tree) place(n *hardware.NIC) []error {
	var notes []error
	note := func(what string, err error) {
		if err != nil {
			notes = append(notes, fmt.Errorf("NIC %s is without its %s: %w", n.PCI, what, err))
		}
	}
	var err error
	n.PCIeRoot, err = t.PCIeRoot(n.PCI)
	note("PCIe root", err)
	if err == nil {
		n.Bridges, err = t.Bridges(n.PCI)
		note("PCI bridges", err)
	}
	n.NUMANode, n.NUMANear, err = t.NUMANodes(n.PCI)
	note("NUMA node", err)
	return notes
}

// physicalFunction is the one that a virtual function belongs to, empty for a
// physical one.
func (t Tree) physicalFunction(addr hardware.PCIAddress) (hardware.PCIAddress, error) {
	target, err := os.Readlink(path.Join(t.root, device(addr), "physfn"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find its physical function: %w", err)
	}
	parent, err := hardware.ParsePCIAddress(path.Base(target))
	if err != nil {
		return "", fmt.Errorf("find its physical function: %w", err)
	}
	return parent, nil
}

// followVirtual makes a physical function share the fate of its virtual ones that
// the host uses: who has it can cut them off.
func followVirtual(found []function) {
	at := map[hardware.PCIAddress]*function{}
	for i := range found {
		at[found[i].nic.PCI] = &found[i]
	}
	for _, f := range found {
		parent, ok := at[f.nic.Parent]
		if !ok {
			continue
		}
		parent.nic.Uplink = parent.nic.Uplink || f.nic.Uplink
		if f.partOf != nil && parent.left == nil {
			parent.left = fmt.Errorf("virtual function %s: %w", f.nic.PCI, f.partOf)
		}
	}
}
