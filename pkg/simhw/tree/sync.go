package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Sync makes the capability files and nodes those of the instances that live. It
// goes by what is there, so that it also tidies up after a crash.
func (t Tree) Sync(s simhw.Snapshot) error {
	files, nodes := wanted(s)
	err := t.prune(s, files, nodes)
	for name, minor := range files {
		err = errors.Join(err, writeFile(t.path(name), []byte(capabilityFile(minor, accessMode)), 0o444))
	}
	for minor, mode := range nodes {
		err = errors.Join(err, makeNode(t.path("dev/nvidia-caps", nodeName(minor)), t.Majors.Capability, minor, mode))
	}
	if err != nil {
		return fmt.Errorf("update capabilities below %s: %w", t.Root, err)
	}
	return nil
}

func nodeName(minor int) string { return fmt.Sprintf("nvidia-cap%d", minor) }

// wanted is the access files with their minors, and the nodes with their modes.
func wanted(s simhw.Snapshot) (map[string]int, map[int]fs.FileMode) {
	files := map[string]int{}
	nodes := map[int]fs.FileMode{simhw.CapabilityConfig: configMode, simhw.CapabilityMonitor: accessMode}
	add := func(dir string, minor int) {
		files[filepath.Join(dir, "access")] = minor
		nodes[minor] = accessMode
	}
	for _, g := range s.GPUs {
		for _, in := range g.Instances {
			dir := filepath.Join(migDir(g.Minor), fmt.Sprintf("gi%d", in.ID))
			add(dir, simhw.GPUInstanceMinor(g.Minor, in.ID))
			for _, c := range in.Compute {
				add(filepath.Join(dir, fmt.Sprintf("ci%d", c.ID)), simhw.ComputeInstanceMinor(g.Minor, in.ID, c.ID))
			}
		}
	}
	return files, nodes
}

// prune removes what no instance has.
func (t Tree) prune(s simhw.Snapshot, files map[string]int, nodes map[int]fs.FileMode) error {
	var err error
	for _, g := range s.GPUs {
		gis, _ := filepath.Glob(t.path(migDir(g.Minor), "gi*"))
		cis, _ := filepath.Glob(t.path(migDir(g.Minor), "gi*", "ci*"))
		for _, dir := range append(cis, gis...) {
			name, rel := filepath.Rel(t.Root, filepath.Join(dir, "access"))
			if _, ok := files[name]; !ok && rel == nil {
				err = errors.Join(err, os.RemoveAll(dir))
			}
		}
	}
	present, _ := filepath.Glob(t.path("dev/nvidia-caps", "nvidia-cap*"))
	for _, path := range present {
		var minor int
		_, scan := fmt.Sscanf(filepath.Base(path), "nvidia-cap%d", &minor)
		if _, ok := nodes[minor]; !ok || scan != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
