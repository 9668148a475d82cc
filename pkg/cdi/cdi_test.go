package cdi_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	cncf "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const uid = "1c5b7d0e-6a44-4d2c-9f6b-0d8a6f6f2b11"

var (
	gpu0       = hardware.DeviceNode{Path: "/dev/nvidia0", Major: 195, Minor: 0}
	gpu1       = hardware.DeviceNode{Path: "/dev/nvidia1", Major: 195, Minor: 1}
	capability = func(n int64) hardware.DeviceNode {
		return hardware.DeviceNode{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: 510, Minor: n}
	}
	wholeGPU = cdi.Device{Result: 0, Nodes: []hardware.DeviceNode{gpu1}}
	slice3   = cdi.Device{Result: 1, Nodes: []hardware.DeviceNode{gpu0, capability(3), capability(4)}}
	slice5   = cdi.Device{Result: 2, Nodes: []hardware.DeviceNode{gpu0, capability(5), capability(6)}}
)

// writer works on a fresh driver root, seen by the runtime as /run/nvidia/driver.
func writer(t *testing.T) (w *cdi.Writer, root, dir string) {
	t.Helper()
	root = driverRoot(t)
	dir = filepath.Join(t.TempDir(), "run", "cdi")
	return cdi.New(cdi.Config{
		Dir: dir, FilesDir: filepath.Join(filepath.Dir(dir), "files"), DriverRoot: root, HostDriverRoot: "/run/nvidia/driver",
		HookPath: "/var/lib/kubelet/plugins/cleave.dev/nvidia-cdi-hook",
	}), root, dir
}

func specFile(dir string) string { return filepath.Join(dir, "cleave.dev-claim-"+uid+".json") }

func TestWrite(t *testing.T) {
	tests := map[string]struct {
		devices []cdi.Device
		names   []string
		golden  string
	}{
		"whole GPU":                   {devices: []cdi.Device{wholeGPU}, names: []string{"cleave.dev/claim=" + uid + "-0"}, golden: "gpu.json"},
		"CDI-02 slices of one GPU":    {devices: []cdi.Device{slice3, slice5}, names: []string{"cleave.dev/claim=" + uid + "-1", "cleave.dev/claim=" + uid + "-2"}, golden: "mig.json"},
		"CDI-03 one without nodes":    {devices: []cdi.Device{{Result: 3}, wholeGPU}, names: []string{"", "cleave.dev/claim=" + uid + "-0"}, golden: "gpu.json"},
		"CDI-03 nothing to inject":    {devices: []cdi.Device{{Result: 3}}, names: []string{""}},
		"CDI-03 claim without device": {names: []string{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, _, dir := writer(t)
			names, err := w.Write(t.Context(), uid, tc.devices)
			must(t, err)
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if tc.golden == "" {
				if _, err := os.Stat(specFile(dir)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a spec without devices was written: %v", err)
				}
				return
			}
			got, err := os.ReadFile(specFile(dir))
			must(t, err)
			golden(t, tc.golden, got)
			info, err := os.Stat(specFile(dir))
			must(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("mode is %o, want 600", info.Mode().Perm())
			}
			checkOnlyFile(t, dir, filepath.Base(specFile(dir)))
		})
	}
}

// A claim that has nothing to inject any more loses the file it had.
func TestWriteReplaces(t *testing.T) {
	w, _, dir := writer(t)
	write(t, w, wholeGPU, slice3)
	write(t, w, slice5)
	spec, err := cncf.ReadSpec(specFile(dir), 0)
	must(t, err)
	if len(spec.Devices) != 1 || spec.GetDevice(uid+"-2") == nil {
		t.Errorf("after the second write: devices %v", spec.Devices)
	}
	write(t, w)
	if _, err := os.Stat(specFile(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after an empty write: %v", err)
	}
}

func TestRemoveAndList(t *testing.T) {
	w, _, dir := writer(t)
	list := func(want ...string) {
		t.Helper()
		got, err := w.List()
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("List (-want +got):\n%s", diff)
		}
	}
	list() // CDI-04: the directory is not there yet
	must(t, w.Remove(uid))
	write(t, w, wholeGPU)
	// What a crash in the middle of a write leaves behind, and files of others.
	for _, name := range []string{"cleave.dev-claim-b-2.json.tmp", "cleave.dev-claim-.json", "nvidia.com-gpu.yaml", "cleave.dev-claim-x"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	list(uid, "b-2")
	must(t, w.Remove(uid))
	must(t, w.Remove(uid))
	must(t, w.Remove("b-2"))
	list()
}

func TestUID(t *testing.T) {
	w, _, _ := writer(t)
	for _, bad := range []string{"", "../escape", "a/b", "-a", "a b", "a.b", strings.Repeat("a", 129)} {
		if _, err := w.Write(t.Context(), bad, []cdi.Device{wholeGPU}); err == nil {
			t.Errorf("Write accepts UID %q", bad)
		}
		if err := w.Remove(bad); err == nil {
			t.Errorf("Remove accepts UID %q", bad)
		}
	}
}

// A container gets the nodes of the devices that it names and no others, whatever
// else the claim holds, and a GPU that two slices share only once.
func TestInjection(t *testing.T) {
	control := []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"}
	tests := map[string]struct {
		results []string
		want    []string
	}{
		"one slice":            {results: []string{"-1"}, want: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"}},
		"the whole GPU":        {results: []string{"-0"}, want: []string{"/dev/nvidia1"}},
		"two slices of a GPU":  {results: []string{"-1", "-2"}, want: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4", "/dev/nvidia-caps/nvidia-cap5", "/dev/nvidia-caps/nvidia-cap6"}},
		"everything the claim": {results: []string{"-0", "-1", "-2"}, want: []string{"/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4", "/dev/nvidia-caps/nvidia-cap5", "/dev/nvidia-caps/nvidia-cap6"}},
	}
	w, _, dir := writer(t)
	write(t, w, wholeGPU, slice3, slice5)
	runtime, err := cncf.NewCache(cncf.WithSpecDirs(dir), cncf.WithAutoRefresh(false))
	must(t, err)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, r := range tc.results {
				names = append(names, "cleave.dev/claim="+uid+r)
			}
			spec := &oci.Spec{Process: &oci.Process{Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}}
			_, err := runtime.InjectDevices(spec, names...)
			must(t, err)
			want := map[string]bool{}
			for _, path := range append(tc.want, control...) {
				want[path] = true
			}
			got := map[string]bool{}
			for _, d := range spec.Linux.Devices {
				if got[d.Path] {
					t.Errorf("%s is there twice", d.Path)
				}
				got[d.Path] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("device nodes (-want +got):\n%s", diff)
			}
			// CDI-05: an older runtime that goes by the variable adds nothing.
			if !slices.Contains(spec.Process.Env, "NVIDIA_VISIBLE_DEVICES=void") || slices.Contains(spec.Process.Env, "NVIDIA_VISIBLE_DEVICES=all") {
				t.Errorf("environment: %v", spec.Process.Env)
			}
		})
	}
}

func write(t *testing.T, w *cdi.Writer, devices ...cdi.Device) {
	t.Helper()
	_, err := w.Write(t.Context(), uid, devices)
	must(t, err)
}

func checkOnlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("in %s: %v, want only %s", dir, entries, name)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
