package cdi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cncf "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/cleave-dra/cleave/pkg/cdi"
)

// CDI-01: a driver that is not there in full fails the claim with what is
// missing, leaves no file, and spoils nothing: the next attempt works.
func TestIncompleteDriver(t *testing.T) {
	tests := map[string]struct {
		missing string
		says    string
		restore func(t *testing.T, path string)
	}{
		"CDI-01 no nvidiactl":  {missing: "dev/nvidiactl", says: "dev/nvidiactl", restore: func(t *testing.T, p string) { charDevice(t, p, 195, 255) }},
		"CDI-01 no nvidia-uvm": {missing: "dev/nvidia-uvm", says: "dev/nvidia-uvm", restore: func(t *testing.T, p string) { charDevice(t, p, 511, 0) }},
		"no libcuda": {missing: "usr/lib/x86_64-linux-gnu/libcuda.so." + version, says: "libcuda.so.",
			restore: func(t *testing.T, p string) { library(t, p, "libcuda.so.1") }},
		"no libnvidia-ml": {missing: "usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + version, says: "libnvidia-ml.so.",
			restore: func(t *testing.T, p string) { library(t, p, "libnvidia-ml.so.1") }},
		"no libraries at all": {missing: "usr/lib", says: "usr/lib",
			restore: func(t *testing.T, p string) {
				must(t, os.Rename(filepath.Join(filepath.Dir(filepath.Dir(p)), "away"), p))
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, root, dir := writer(t)
			path := filepath.Join(root, tc.missing)
			must(t, os.Rename(path, filepath.Join(root, "away")))
			_, err := w.Write(t.Context(), uid, []cdi.Device{wholeGPU})
			if !errors.Is(err, cdi.ErrIncomplete) {
				t.Fatalf("Write: %v, want ErrIncomplete", err)
			}
			if tc.missing != "usr/lib" && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error does not name %s: %v", tc.says, err)
			}
			if uids, _ := w.List(); len(uids) > 0 {
				t.Errorf("an incomplete spec was written to %s", dir)
			}
			tc.restore(t, path)
			write(t, w, wholeGPU)
		})
	}
}

// What was found is kept only as long as it is true.
func TestDriverChanges(t *testing.T) {
	control := func(t *testing.T, dir string) (major int64, mounts int) {
		t.Helper()
		spec, err := cncf.ReadSpec(specFile(dir), 0)
		must(t, err)
		for _, n := range spec.ContainerEdits.DeviceNodes {
			if n.Path == "/dev/nvidia-uvm" {
				major = n.Major
			}
		}
		return major, len(spec.ContainerEdits.Mounts)
	}
	tests := map[string]struct {
		change     func(t *testing.T, root string)
		major      int64
		moreMounts int
	}{
		"nothing changed": {change: func(*testing.T, string) {}, major: 511},
		"the module was loaded anew with another major": {major: 509, change: func(t *testing.T, root string) {
			must(t, os.Remove(filepath.Join(root, "dev/nvidia-uvm")))
			charDevice(t, filepath.Join(root, "dev/nvidia-uvm"), 509, 0)
		}},
		"a library was added": {major: 511, moreMounts: 1, change: func(t *testing.T, root string) {
			library(t, filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so."+version), "libnvidia-ptxjitcompiler.so.1")
		}},
		"a daemon came up": {major: 511, moreMounts: 1, change: func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "run/nvidia-persistenced"), 0o755))
			must(t, os.WriteFile(filepath.Join(root, "run/nvidia-persistenced/socket"), nil, 0o666))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, root, dir := writer(t)
			age(t, root)
			write(t, w, wholeGPU)
			_, before := control(t, dir)
			tc.change(t, root)
			write(t, w, wholeGPU)
			major, after := control(t, dir)
			if major != tc.major || after-before != tc.moreMounts {
				t.Errorf("major %d and %d more mounts, want %d and %d", major, after-before, tc.major, tc.moreMounts)
			}
		})
	}
}

// The version that runs decides which libraries are mounted, not what else an
// update has left lying about; and an update is noticed.
func TestDriverVersion(t *testing.T) {
	root := driverRoot(t)
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, name := range []string{"libcuda", "libnvidia-ml"} {
		library(t, filepath.Join(libs, name+".so.575.57.08"), name+".so.1")
	}
	age(t, root)
	dir, running := t.TempDir(), version
	w := cdi.New(cdi.Config{Dir: dir, DriverRoot: root, DriverVersion: func(context.Context) (string, error) { return running, nil }})
	for _, v := range []string{version, "575.57.08"} {
		running = v
		write(t, w, wholeGPU)
		spec, err := os.ReadFile(specFile(dir))
		must(t, err)
		for _, other := range []string{version, "575.57.08"} {
			if got := strings.Contains(string(spec), "libcuda.so."+other); got != (other == v) {
				t.Errorf("driver %s runs: libcuda.so.%s in the spec is %t", v, other, got)
			}
		}
	}
	running = "999.1"
	if _, err := w.Write(t.Context(), uid, []cdi.Device{wholeGPU}); !errors.Is(err, cdi.ErrIncomplete) {
		t.Errorf("Write for a version that is not installed: %v, want ErrIncomplete", err)
	}
}

// A driver root that is a link is the directory behind it, here as on the host.
func TestLinkedDriverRoot(t *testing.T) {
	root := driverRoot(t)
	link := filepath.Join(t.TempDir(), "driver")
	must(t, os.Symlink(root, link))
	dir := t.TempDir()
	w := cdi.New(cdi.Config{Dir: dir, DriverRoot: link, HostDriverRoot: "/run/nvidia/driver"})
	write(t, w, wholeGPU)
	spec, err := cncf.ReadSpec(specFile(dir), 0)
	must(t, err)
	for _, m := range spec.ContainerEdits.Mounts {
		if m.HostPath != "/run/nvidia/driver"+m.ContainerPath {
			t.Errorf("mount %s from %s", m.ContainerPath, m.HostPath)
		}
	}
}
