// Package sysfs reads where PCI devices sit in a machine. It knows no vendor.
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
type Tree struct{ root string }

// New prepares a Tree for the sysfs mounted at root, "/sys" if empty.
func New(root string) Tree {
	if root == "" {
		root = deviceattribute.SysfsRoot
	}
	return Tree{root: root}
}

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
	link := path.Join("bus/pci/devices", string(addr))
	target, err := os.Readlink(path.Join(t.root, link))
	if err != nil || path.IsAbs(target) || path.Base(target) != string(addr) {
		return false
	}
	parent := path.Join(path.Dir(link), target)
	return strings.HasPrefix(parent, "devices/") && !strings.HasPrefix(parent, "devices/pci")
}

// NUMANode is the device's NUMA node, nil where the kernel does not know one: it
// says -1 on virtual machines and machines with a single node, and has no such
// file where it was built without NUMA.
func (t Tree) NUMANode(addr hardware.PCIAddress) (*int, error) {
	raw, err := os.ReadFile(path.Join(t.root, "bus/pci/devices", string(addr), "numa_node"))
	if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(raw)) == "-1" {
		return nil, nil
	}
	attr, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(string(addr),
		deviceattribute.ScalarAttribute, deviceattribute.WithFSFromRoot(t.root))
	if err != nil {
		return nil, fmt.Errorf("find NUMA node of %s under %s: %w", addr, t.root, err)
	}
	node := int(*attr.Value.IntValue)
	return &node, nil
}
