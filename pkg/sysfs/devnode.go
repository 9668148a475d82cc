package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// rdmaNodes are the device nodes of RDMA devices, by the device's name.
type rdmaNodes struct {
	verbs              map[string]hardware.DeviceNode
	management, subnet map[string]portNodes
}

// portNodes are nodes by the port that they are for.
type portNodes map[int]hardware.DeviceNode

func (p portNodes) inOrder() []hardware.DeviceNode {
	var out []hardware.DeviceNode
	ports := make([]int, 0, len(p))
	for port := range p {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	for _, port := range ports {
		out = append(out, p[port])
	}
	return out
}

// ConnectionManager is the node of the RDMA connection manager, which all NICs share;
// hardware.ErrNotFound where the kernel has none.
func (t Tree) ConnectionManager() (hardware.DeviceNode, error) {
	node, err := t.deviceNode("class/misc/rdma_cm")
	if errors.Is(err, fs.ErrNotExist) {
		return hardware.DeviceNode{}, fmt.Errorf("RDMA connection manager (is the module rdma_ucm loaded?): %w", hardware.ErrNotFound)
	}
	return node, err
}

// deviceNodes reads all nodes of RDMA devices (the kernel's
// Documentation/ABI/stable/sysfs-class-infiniband). What is unreadable is left out
// with the reason; a device that lacks its node for it is seen to be incomplete.
func (t Tree) deviceNodes() (rdmaNodes, []error) {
	n := rdmaNodes{
		verbs:      map[string]hardware.DeviceNode{},
		management: map[string]portNodes{},
		subnet:     map[string]portNodes{},
	}
	var notes []error
	for _, class := range []string{"class/infiniband_verbs", "class/infiniband_mad"} {
		names, err := t.list(class)
		if err != nil {
			notes = append(notes, fmt.Errorf("list RDMA device nodes: %w", err))
		}
		for _, name := range names {
			if err := t.addNode(n, path.Join(class, name)); err != nil {
				notes = append(notes, fmt.Errorf("leave out RDMA device node %s: %w", name, err))
			}
		}
	}
	return n, notes
}

func (t Tree) addNode(n rdmaNodes, dir string) error {
	kind := strings.TrimRight(path.Base(dir), "0123456789")
	byPort := map[string]map[string]portNodes{"umad": n.management, "issm": n.subnet}[kind]
	if byPort == nil && kind != "uverbs" {
		return nil // "abi_version"
	}
	rdma, err := t.read(path.Join(dir, "ibdev"))
	if err != nil {
		return err
	}
	node, err := t.deviceNode(dir)
	if err != nil {
		return err
	}
	if byPort == nil {
		n.verbs[rdma] = node
		return nil
	}
	text, err := t.read(path.Join(dir, "port"))
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("port: %w", err)
	}
	if byPort[rdma] == nil {
		byPort[rdma] = portNodes{}
	}
	byPort[rdma][port] = node
	return nil
}

// deviceNode reads the number of a node from its file dev, "231:192". RDMA nodes are
// all in one directory: libibverbs and libibumad look nowhere else.
func (t Tree) deviceNode(dir string) (hardware.DeviceNode, error) {
	text, err := t.read(path.Join(dir, "dev"))
	if err != nil {
		return hardware.DeviceNode{}, err
	}
	major, minor, _ := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if err := cmp.Or(errA, errB); err != nil {
		return hardware.DeviceNode{}, fmt.Errorf("read device number %q: %w", text, err)
	}
	return hardware.DeviceNode{Path: "/dev/infiniband/" + path.Base(dir), Major: int64(a), Minor: int64(b)}, nil
}
