package simnode_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// NVIDIA's own container toolkit must take the file tree for a driver.
func TestContainerToolkit(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib, err := nvcdi.New(
		nvcdi.WithNvmlLib(nvml.New(nvml.WithLibraryPath(n.Library))),
		nvcdi.WithDriverRoot(n.Root), nvcdi.WithDevRoot(n.DevRoot), nvcdi.WithMode(nvcdi.ModeNvml),
	)
	if err != nil {
		t.Fatal(err)
	}
	common, err := lib.GetCommonEdits()
	if err != nil {
		t.Fatal(err)
	}
	var nodes, mounts []string
	for _, d := range common.DeviceNodes {
		nodes = append(nodes, d.Path)
	}
	for _, m := range common.Mounts {
		if from, ok := strings.CutPrefix(m.HostPath, n.Root); !ok || from != m.ContainerPath {
			t.Errorf("%s is mounted at %s", m.HostPath, m.ContainerPath)
		}
		mounts = append(mounts, m.ContainerPath)
	}
	wantNodes := []string{"/dev/nvidia-modeset", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm", "/dev/nvidiactl"}
	if diff := cmp.Diff(wantNodes, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	libraries := filepath.Dir(strings.TrimPrefix(n.Library, n.Root))
	wantMounts := []string{
		filepath.Join(libraries, "libcuda.so.580.95.05"), filepath.Join(libraries, "libnvidia-ml.so.580.95.05"),
		"/run/nvidia-persistenced/socket", "/usr/bin/nvidia-smi",
	}
	if diff := cmp.Diff(wantMounts, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	devices, err := lib.GetDeviceSpecsByID(n.State().GPUs[1].UUID)
	if err != nil {
		t.Fatal(err)
	}
	if len(devices) != 1 || len(devices[0].ContainerEdits.DeviceNodes) != 1 || devices[0].ContainerEdits.DeviceNodes[0].Path != "/dev/nvidia1" {
		t.Errorf("device %+v", devices)
	}
}
