package cdi_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	cncf "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

const topology = "/run/cleave/nccl-topology.xml"

// nic needs two nodes and a file, and no driver.
var nic = cdi.Device{
	Result: 3, NoDriver: true,
	Nodes: []hardware.DeviceNode{
		{Path: "/dev/infiniband/uverbs0", Major: 231, Minor: 192},
		{Path: "/dev/infiniband/rdma_cm", Major: 10, Minor: 58},
	},
	Env:   []string{"NCCL_IB_HCA==mlx5_0:1", "NCCL_TOPO_FILE=" + topology},
	Files: []cdi.File{{Path: topology, Content: []byte("<system/>\n")}},
}

// TestWriteNICs: a NIC brings its own nodes, environment and files. Alone it waits for
// no NVIDIA driver and gets nothing of it.
func TestWriteNICs(t *testing.T) {
	tests := map[string]struct {
		devices []cdi.Device
		driver  bool
	}{
		"alone":          {devices: []cdi.Device{nic}},
		"beside a GPU":   {devices: []cdi.Device{wholeGPU, nic}, driver: true},
		"beside nothing": {devices: []cdi.Device{{Result: 0}, nic}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, root, dir := writer(t)
			if !tc.driver {
				must(t, os.RemoveAll(root))
			}
			names, err := w.Write(t.Context(), uid, tc.devices)
			must(t, err)
			runtime, err := cncf.NewCache(cncf.WithSpecDirs(dir), cncf.WithAutoRefresh(false))
			must(t, err)
			spec := &oci.Spec{}
			_, err = runtime.InjectDevices(spec, names[len(names)-1])
			must(t, err)

			var nodes []string
			for _, d := range spec.Linux.Devices {
				if strings.HasPrefix(d.Path, "/dev/infiniband/") || !tc.driver {
					nodes = append(nodes, d.Path)
				}
			}
			if diff := cmp.Diff([]string{"/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"}, nodes); diff != "" {
				t.Errorf("device nodes (-want +got):\n%s", diff)
			}
			env := strings.Join(spec.Process.Env, " ")
			if !strings.Contains(env, nic.Env[0]) || strings.Contains(env, "NVIDIA_VISIBLE_DEVICES") != tc.driver {
				t.Errorf("environment: %s", env)
			}
			for _, m := range spec.Mounts {
				if m.Destination != topology {
					continue
				}
				content, err := os.ReadFile(m.Source)
				must(t, err)
				info, err := os.Stat(m.Source)
				must(t, err)
				if string(content) != "<system/>\n" || m.Options[0] != "ro" || info.Mode().Perm()&0o044 != 0o044 {
					t.Errorf("file %q, mounted with %v, mode %v", content, m.Options, info.Mode())
				}
				return
			}
			t.Errorf("%s is not mounted: %v", topology, spec.Mounts)
		})
	}
}

// TestFilesGoWithTheClaim: a claim's files are found and removed, also those that a
// crash left without a spec.
func TestFilesGoWithTheClaim(t *testing.T) {
	w, _, dir := writer(t)
	write(t, w, nic)
	must(t, os.Remove(specFile(dir)))
	got, err := w.List()
	must(t, err)
	if diff := cmp.Diff([]string{uid}, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	must(t, w.Remove(uid))
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "files", uid)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
}

// TestFilesNeedAPlace: a path in the container leads out of the claim's folder
// nowhere, and without a folder the claim fails.
func TestFilesNeedAPlace(t *testing.T) {
	w, _, dir := writer(t)
	odd := nic
	odd.Files = []cdi.File{{Path: "/../../x", Content: []byte("x")}}
	write(t, w, odd)
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "files", uid, "x")); err != nil {
		t.Error(err)
	}
	if _, err := cdi.New(cdi.Config{Dir: dir}).Write(t.Context(), uid, []cdi.Device{nic}); err == nil {
		t.Error("written without a folder for files")
	}
}
