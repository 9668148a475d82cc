// Package sysfs reads where PCI devices sit in a machine, and its NICs that can do
// RDMA. It knows no vendor. Everything is read anew at every call: there is nothing
// that wakes it when hardware comes or goes, so its callers look from time to time.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Tree is one machine's sysfs.
type Tree struct{ root, proc string }

// New prepares a Tree for the sysfs mounted at root, "/sys" if empty.
func New(root string) Tree {
	if root == "" {
		root = deviceattribute.SysfsRoot
	}
	return Tree{root: root}
}

// WithProc returns a Tree that also knows the machine's procfs, for example "/proc",
// and so which NICs carry its default route.
func (t Tree) WithProc(root string) Tree {
	t.proc = root
	return t
}

// read is a file's content without the white space around it.
func (t Tree) read(name string) (string, error) {
	raw, err := os.ReadFile(path.Join(t.root, name))
	return strings.TrimSpace(string(raw)), err
}

// list has the names in a directory in ascending order, none if it is not there.
func (t Tree) list(name string) ([]string, error) {
	entries, err := os.ReadDir(path.Join(t.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// device is the directory of a PCI function.
func device(addr hardware.PCIAddress) string { return path.Join("bus/pci/devices", string(addr)) }

// PCIeRoot is the device's root complex, for example "pci0000:3a". It is empty
// without an error where the device hangs under no PCI root, as under the
// virtual buses of some clouds; an error means that sysfs does not have the
// device or has it in an unexpected form.
func (t Tree) PCIeRoot(addr hardware.PCIAddress) (string, error) {
	if t.underVirtualBus(addr) {
		return "", nil
	}
	attr, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(string(addr), deviceattribute.WithFSFromRoot(t.root))
	if err != nil {
		return "", fmt.Errorf("find PCIe root of %s under %s: %w", addr, t.root, err)
	}
	return *attr.Value.StringValue, nil
}

// underVirtualBus tells a device with a place in the device tree, but none below
// a PCI root (kubernetes-sigs/dra-driver-nvidia-gpu#575).
func (t Tree) underVirtualBus(addr hardware.PCIAddress) bool {
	link := device(addr)
	target, err := os.Readlink(path.Join(t.root, link))
	if err != nil || path.IsAbs(target) || path.Base(target) != string(addr) {
		return false
	}
	parent := path.Join(path.Dir(link), target)
	return strings.HasPrefix(parent, "devices/") && !strings.HasPrefix(parent, "devices/pci")
}

// Bridges are the PCI bridges between the root complex and the device, the root port
// first, as the path of its directory names them. There are none where PCIeRoot is
// empty, and on machines whose root complex has its devices directly, as virtual
// ones often do.
func (t Tree) Bridges(addr hardware.PCIAddress) ([]hardware.PCIAddress, error) {
	root, err := t.PCIeRoot(addr)
	if err != nil || root == "" {
		return nil, err
	}
	target, err := os.Readlink(path.Join(t.root, device(addr)))
	if err != nil {
		return nil, fmt.Errorf("find PCI bridges above %s: %w", addr, err)
	}
	_, below, _ := strings.Cut(target, "/"+root+"/")
	var bridges []hardware.PCIAddress
	for dir := range strings.SplitSeq(path.Dir(below), "/") {
		// Something that is no function, as the root of a domain inside a volume
		// management device, is no bridge.
		if bridge, err := hardware.ParsePCIAddress(dir); err == nil {
			bridges = append(bridges, bridge)
		}
	}
	return bridges, nil
}

// NUMANodes are the device's NUMA node, and those of the same socket that are nearest to
// it where the socket has several (KEP-6072). The node is nil where the kernel does not
// know one: it says -1 on virtual machines and machines with a single node, and has no
// such file where it was built without NUMA. There are no others where the kernel does
// not tell how far apart nodes are.
func (t Tree) NUMANodes(addr hardware.PCIAddress) (node *int, near []int, err error) {
	raw, err := os.ReadFile(path.Join(t.root, device(addr), "numa_node"))
	if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(raw)) == "-1" {
		return nil, nil, nil
	}
	attr, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(string(addr),
		deviceattribute.ListAttribute, deviceattribute.WithFSFromRoot(t.root))
	if err != nil {
		return nil, nil, fmt.Errorf("find NUMA node of %s under %s: %w", addr, t.root, err)
	}
	// The first is the device's own.
	own := int(attr.Value.IntValues[0])
	for _, n := range attr.Value.IntValues[1:] {
		near = append(near, int(n))
	}
	return &own, near, nil
}
