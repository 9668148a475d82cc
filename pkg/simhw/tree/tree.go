// Package tree writes the files that an NVIDIA driver has on a node, below a root
// of their own: libraries and nvidia-smi, device nodes, and what its kernel module
// shows in /proc and the kernel in /sys.
package tree

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

// Config is what the tree is made from.
type Config struct {
	// Root is the directory that stands for the driver root.
	Root string
	// Libraries has libnvidia-ml.so and libcuda.so as pkg/simhw/shim builds them.
	Libraries string
	// Executable is installed as nvidia-smi.
	Executable string
	Server     catalog.Server
	Majors     serve.Majors
}

// Tree is the files of one node.
type Tree struct {
	Config
}

// Write makes all files that do not depend on what happens to the GPUs. What is
// there already and right stays as it is.
func (t Tree) Write(s simhw.Snapshot) error {
	steps := []struct {
		what string
		do   func(simhw.Snapshot) error
	}{
		{"libraries", t.libraries}, {"device nodes", t.nodes}, {"/proc", t.proc}, {"/sys", t.sys},
	}
	for _, step := range steps {
		if err := step.do(s); err != nil {
			return fmt.Errorf("write simulated %s below %s: %w", step.what, t.Root, err)
		}
	}
	return nil
}

func (t Tree) path(parts ...string) string {
	return filepath.Join(append([]string{t.Root}, parts...)...)
}

// libraryDir is Debian's for this machine.
func libraryDir() string {
	if runtime.GOARCH == "arm64" {
		return "usr/lib/aarch64-linux-gnu"
	}
	return "usr/lib/x86_64-linux-gnu"
}

// LibraryPath is the library's place below the root.
func LibraryPath() string { return filepath.Join(libraryDir(), "libnvidia-ml.so.1") }

func (t Tree) libraries(simhw.Snapshot) error {
	for _, name := range []string{"libnvidia-ml.so", "libcuda.so"} {
		versioned := name + "." + t.Server.DriverVersion
		err := errors.Join(
			copyFile(filepath.Join(t.Libraries, name), t.path(libraryDir(), versioned), 0o755),
			link(versioned, t.path(libraryDir(), name+".1")),
		)
		if err != nil {
			return err
		}
	}
	return copyFile(t.Executable, t.path("usr/bin/nvidia-smi"), 0o755)
}

// Minors of the nodes that belong to no GPU.
const (
	controlMinor  = 255
	modesetMinor  = 254
	uvmMinor      = 0
	uvmToolsMinor = 1
)

func (t Tree) nodes(s simhw.Snapshot) error {
	err := errors.Join(
		makeNode(t.path("dev/nvidiactl"), t.Majors.GPU, controlMinor, 0o666),
		makeNode(t.path("dev/nvidia-modeset"), t.Majors.GPU, modesetMinor, 0o666),
		makeNode(t.path("dev/nvidia-uvm"), t.Majors.UVM, uvmMinor, 0o666),
		makeNode(t.path("dev/nvidia-uvm-tools"), t.Majors.UVM, uvmToolsMinor, 0o666),
	)
	for _, g := range s.GPUs {
		err = errors.Join(err, makeNode(t.path("dev", fmt.Sprintf("nvidia%d", g.Minor)), t.Majors.GPU, g.Minor, 0o666))
	}
	return err
}

// sys has what the kernel shows of a PCI device, as far as somebody reads it:
// /sys/bus/pci/devices/<address> is a link into /sys/devices, whose path names
// the root complex and all bridges.
func (t Tree) sys(simhw.Snapshot) error {
	for _, g := range t.Server.GPUs {
		dir := filepath.Join("devices", g.RootComplex)
		for _, bridge := range g.Bridges {
			dir = filepath.Join(dir, string(bridge))
			if err := t.pciDevice(dir, string(bridge), map[string]string{"class": "0x060400", "numa_node": fmt.Sprint(g.NUMANode)}); err != nil {
				return err
			}
		}
		id := g.Model.PCI
		attributes := map[string]string{
			"vendor":           fmt.Sprintf("0x%04x", id.Vendor),
			"device":           fmt.Sprintf("0x%04x", id.Device),
			"subsystem_vendor": fmt.Sprintf("0x%04x", id.SubsystemVendor),
			"subsystem_device": fmt.Sprintf("0x%04x", id.SubsystemDevice),
			"class":            fmt.Sprintf("0x%06x", id.Class),
			"numa_node":        fmt.Sprint(g.NUMANode),
		}
		if err := t.pciDevice(filepath.Join(dir, string(g.PCI)), string(g.PCI), attributes); err != nil {
			return err
		}
	}
	return nil
}

func (t Tree) pciDevice(dir, address string, attributes map[string]string) error {
	for name, value := range attributes {
		if err := writeFile(t.path("sys", dir, name), []byte(value+"\n"), 0o444); err != nil {
			return err
		}
	}
	return link(filepath.Join("../../..", dir), t.path("sys/bus/pci/devices", address))
}
