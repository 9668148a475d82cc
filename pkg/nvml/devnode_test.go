package nvml_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/nvml"
)

const (
	access  = "driver/nvidia/capabilities/gpu3/mig/gi11/access"
	access0 = "driver/nvidia/capabilities/gpu3/mig/gi11/ci0/access"
)

func TestDeviceNodes(t *testing.T) {
	whole := []hardware.DeviceNode{{Path: "/dev/nvidia3", Major: 195, Minor: 3}}
	slice := append(whole, hardware.DeviceNode{Path: "/dev/nvidia-caps/nvidia-cap102", Major: 510, Minor: 102},
		hardware.DeviceNode{Path: "/dev/nvidia-caps/nvidia-cap103", Major: 510, Minor: 103})
	text := func(path, content string) func(t *testing.T, root string) {
		return func(t *testing.T, root string) {
			must(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o644))
		}
	}
	without := func(path string) func(t *testing.T, root string) {
		return func(t *testing.T, root string) { must(t, os.Remove(filepath.Join(root, path))) }
	}
	tests := map[string]struct {
		change           func(t *testing.T, root string)
		wholeErr, migErr error // nil if it works
	}{
		"SYSF-06 the node is the minor's": {},
		"CDI-01 no GPU node":              {change: without("dev/nvidia3"), wholeErr: fs.ErrNotExist, migErr: fs.ErrNotExist},
		"a file in the node's place": {change: func(t *testing.T, root string) {
			without("dev/nvidia3")(t, root)
			text("dev/nvidia3", "")(t, root)
		}, wholeErr: errUnnamed, migErr: errUnnamed},
		"CDI-01 no capability of the GPU instance":     {change: without("proc/" + access), migErr: fs.ErrNotExist},
		"CDI-01 no capability of the compute instance": {change: without("proc/" + access0), migErr: fs.ErrNotExist},
		"an odd capability file":                       {change: text("proc/"+access, "DeviceFileMode: 292\n"), migErr: errUnnamed},
		"SYSF-05 no capability class":                  {change: text("proc/devices", "Character devices:\n195 nvidia\n"), migErr: hardware.ErrNotSupported},
		"SYSF-05 a block device of that name":          {change: text("proc/devices", "Character devices:\n195 nvidia\n\nBlock devices:\n510 nvidia-caps\n"), migErr: hardware.ErrNotSupported},
		"SYSF-05 listed twice":                         {change: text("proc/devices", "Character devices:\n510 nvidia-caps\n511 nvidia-caps\n")},
		"SYSF-05 no /proc/devices":                     {change: without("proc/devices"), migErr: fs.ErrNotExist},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("FAKE_GPUS", "1")
			root := kernelFiles(t)
			if tc.change != nil {
				tc.change(t, root)
			}
			d := nvml.New(nvml.Config{LibraryPath: fake, DevRoot: root, ProcRoot: filepath.Join(root, "proc")})
			defer d.Close()
			got, err := d.DeviceNodes(t.Context(), gpu(0))
			checkNodes(t, "DeviceNodes", whole, got, tc.wholeErr, err)
			got, err = d.MIGDeviceNodes(t.Context(), gpu(0), 11, []int{0})
			checkNodes(t, "MIGDeviceNodes", slice, got, tc.migErr, err)
		})
	}
}

func checkNodes(t *testing.T, what string, want, got []hardware.DeviceNode, wantErr, err error) {
	t.Helper()
	switch {
	case wantErr == nil:
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	case err == nil || wantErr != errUnnamed && !errors.Is(err, wantErr):
		t.Errorf("%s: %v, want %v", what, err, wantErr)
	}
}

// kernelFiles is what the nvidia modules show of the fake's first GPU, minor 3,
// with GPU instance 11 and its compute instance 0.
func kernelFiles(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"proc/devices":    "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n  7 loop\n",
		"proc/" + access:  "DeviceFileMinor: 102\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
		"proc/" + access0: "DeviceFileMinor: 103\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
	} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o644))
	}
	must(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	err := unix.Mknod(filepath.Join(root, "dev/nvidia3"), unix.S_IFCHR|0o666, int(unix.Mkdev(195, 3)))
	if err == unix.EPERM {
		t.Skip("making device nodes needs root")
	}
	must(t, err)
	return root
}
