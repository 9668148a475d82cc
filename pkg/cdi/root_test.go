package cdi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const version = "580.95.05"

// driverRoot makes a driver installation: two libraries with their links,
// nvidia-smi, and the control nodes as character devices.
func driverRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, dir := range []string{libs, filepath.Join(root, "usr/bin"), filepath.Join(root, "dev")} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	for _, name := range []string{"libcuda", "libnvidia-ml"} {
		file := name + ".so." + version
		library(t, filepath.Join(libs, file), name+".so.1")
		must(t, os.Symlink(file, filepath.Join(libs, name+".so.1")))
	}
	must(t, os.WriteFile(filepath.Join(root, "usr/bin/nvidia-smi"), []byte("#!/bin/sh\n"), 0o755))
	charDevice(t, filepath.Join(root, "dev/nvidiactl"), 195, 255)
	charDevice(t, filepath.Join(root, "dev/nvidia-uvm"), 511, 0)
	charDevice(t, filepath.Join(root, "dev/nvidia-uvm-tools"), 511, 1)
	return root
}

// library makes a real shared library, since its soname is read.
func library(t *testing.T, path, soname string) {
	t.Helper()
	built, ok := libraries.Load(soname)
	if !ok {
		cmd := exec.Command("gcc", "-shared", "-nostdlib", "-Wl,-soname,"+soname, "-o", path, "-x", "c", "/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", path, err, out)
		}
		content, err := os.ReadFile(path)
		must(t, err)
		built, _ = libraries.LoadOrStore(soname, content)
	}
	must(t, os.WriteFile(path, built.([]byte), 0o755))
}

// libraries are those that have been made, by soname: the compiler is slow.
var libraries sync.Map

func charDevice(t *testing.T, path string, major, minor uint32) {
	t.Helper()
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
	if err == unix.EPERM {
		t.Skip("making device nodes needs root")
	}
	must(t, err)
}

// age makes everything under root look as if it had been there for long.
func age(t *testing.T, root string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	must(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(path, old, old)
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
