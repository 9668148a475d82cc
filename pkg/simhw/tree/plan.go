package tree

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// kind is what there is at a path.
type kind int

const (
	file kind = iota
	copied
	symlink
	node
	directory
)

// entry is one thing in the tree.
type entry struct {
	kind kind
	// text is a file's content, a link's target, or where a file is copied from.
	text string
	mode fs.FileMode
	// major and minor are a device node's.
	major, minor int
}

// plan is the whole tree by path below the root.
type plan map[string]entry

// plan is what a state looks like in files.
func (t *Tree) plan(s simhw.Snapshot) plan {
	p := plan{}
	t.libraries(p, s.Driver)
	t.devices(p, s)
	t.proc(p, s)
	t.sys(p, s)
	t.numa(p)
	t.network(p, s)
	t.nics(p, s)
	return p
}

func (p plan) file(path, content string) { p[path] = entry{kind: file, text: content, mode: 0o444} }

func (p plan) link(path, target string) { p[path] = entry{kind: symlink, text: target} }

// linkTo is a link as the kernel makes them: relative. Both paths are below the root.
func (p plan) linkTo(path, target string) {
	relative, err := filepath.Rel(filepath.Dir(path), target)
	if err != nil {
		panic(err) // both are relative
	}
	p.link(path, relative)
}

// files are attributes of something, each with a line of its own.
func (p plan) files(dir string, attributes map[string]string) {
	for name, value := range attributes {
		p.file(filepath.Join(dir, name), value+"\n")
	}
}

func (p plan) node(path string, major, minor int, mode fs.FileMode) {
	p[path] = entry{kind: node, major: major, minor: minor, mode: mode}
}

// managed are the directories in which nothing else may be.
func managed() []string { return []string{"dev", "proc", "sys"} }

func libraryNames() []string { return []string{"libnvidia-ml.so", "libcuda.so"} }

// libraries are named after the driver's version, except one that is no file name.
func (t *Tree) libraries(p plan, d simhw.DriverState) {
	version := d.Version
	if version == "" || strings.ContainsRune(version, '/') {
		version = t.Server.DriverVersion
	}
	for _, name := range libraryNames() {
		versioned := name + "." + version
		p[filepath.Join(libraryDir(), versioned)] = entry{kind: copied, text: filepath.Join(t.Libraries, name), mode: 0o755}
		p.link(filepath.Join(libraryDir(), name+".1"), versioned)
	}
	p["usr/bin/nvidia-smi"] = entry{kind: copied, text: t.Executable, mode: 0o755}
}

// Minors of the nodes that belong to no GPU.
const (
	controlMinor  = 255
	modesetMinor  = 254
	uvmMinor      = 0
	uvmToolsMinor = 1
)

// Modes of capability device nodes: only root may configure.
const (
	deviceMode = 0o666
	configMode = 0o400
	accessMode = 0o444
)

func (t *Tree) devices(p plan, s simhw.Snapshot) {
	if s.Driver.NodesGone {
		return
	}
	p.node("dev/nvidiactl", t.Majors.GPU, controlMinor, deviceMode)
	p.node("dev/nvidia-modeset", t.Majors.GPU, modesetMinor, deviceMode)
	p.node("dev/nvidia-uvm", t.Majors.UVM, uvmMinor, deviceMode)
	p.node("dev/nvidia-uvm-tools", t.Majors.UVM, uvmToolsMinor, deviceMode)
	capability := func(minor int, mode fs.FileMode) {
		p.node(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", minor), t.Majors.Capability, minor, mode)
	}
	capability(simhw.CapabilityConfig, configMode)
	capability(simhw.CapabilityMonitor, accessMode)
	for _, g := range s.GPUs {
		if g.Absent {
			continue
		}
		p.node(fmt.Sprintf("dev/nvidia%d", g.Minor), t.Majors.GPU, g.Minor, deviceMode)
		for _, minor := range capabilities(g) {
			capability(minor, accessMode)
		}
	}
}

// capabilities are the access files of a GPU's instances with their minors.
func capabilities(g simhw.GPUState) map[string]int {
	out := map[string]int{}
	for _, in := range g.Instances {
		dir := filepath.Join(migDir(g.Minor), fmt.Sprintf("gi%d", in.ID))
		out[filepath.Join(dir, "access")] = simhw.GPUInstanceMinor(g.Minor, in.ID)
		for _, c := range in.Compute {
			out[filepath.Join(dir, fmt.Sprintf("ci%d", c.ID), "access")] = simhw.ComputeInstanceMinor(g.Minor, in.ID, c.ID)
		}
	}
	return out
}

// views are the nodes by which clients see GPUs.
func (p plan) views() map[string]entry {
	out := maps.Clone(map[string]entry(p))
	maps.DeleteFunc(out, func(path string, e entry) bool {
		return e.kind != node || filepath.Dir(path) != "dev" && filepath.Base(path) != fmt.Sprintf("nvidia-cap%d", simhw.CapabilityConfig)
	})
	return out
}
