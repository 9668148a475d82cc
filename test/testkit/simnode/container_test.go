package simnode_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

func capability(minor int) string { return fmt.Sprintf("nvidia-cap%d", minor) }

// capabilities are the nodes of a MIG device, below dev.
func capabilities(g simhw.GPUState, in simhw.InstanceState) []string {
	return []string{
		"nvidia-caps/" + capability(simhw.GPUInstanceMinor(g.Minor, in.ID)),
		"nvidia-caps/" + capability(simhw.ComputeInstanceMinor(g.Minor, in.ID, 0)),
	}
}

func TestContainerSeesItsDevices(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	enable(t, d)
	make1g(t, d)
	make1g(t, d)
	s := n.State()
	h100, l40s := s.GPUs[0], s.GPUs[1]
	first, second := h100.Instances[0], h100.Instances[1]
	lineMIG := func(i int, in simhw.InstanceState) string {
		return fmt.Sprintf("  MIG 1g.10gb     Device  %d: (UUID: %s)\n", i, in.Compute[0].UUID)
	}
	lineGPU := func(i int, g simhw.GPUState) string {
		return fmt.Sprintf("GPU %d: %s (UUID: %s)\n", i, g.Product, g.UUID)
	}
	tests := map[string]struct {
		devices []string
		want    string
		code    int
	}{
		"the second GPU only": {
			devices: []string{"nvidiactl", "nvidia1"},
			want:    lineGPU(0, l40s),
		},
		"one MIG device": {
			devices: append([]string{"nvidiactl", "nvidia0"}, capabilities(h100, second)...),
			want:    lineGPU(0, h100) + lineMIG(0, second),
		},
		"both MIG devices": {
			devices: append(append([]string{"nvidiactl", "nvidia0"}, capabilities(h100, second)...), capabilities(h100, first)...),
			want:    lineGPU(0, h100) + lineMIG(0, first) + lineMIG(1, second),
		},
		"a GPU instance without its compute instance": {
			devices: []string{"nvidiactl", "nvidia0", capabilities(h100, first)[0]},
			want:    lineGPU(0, h100),
		},
		"capabilities without the GPU": {
			devices: append([]string{"nvidiactl", "nvidia1"}, capabilities(h100, first)...),
			want:    lineGPU(0, l40s),
		},
		"the right to configure": {
			devices: []string{"nvidiactl", "nvidia0", "nvidia1", "nvidia-caps/nvidia-cap1"},
			want:    lineGPU(0, h100) + lineMIG(0, first) + lineMIG(1, second) + lineGPU(1, l40s),
		},
		"no GPU": {
			devices: []string{"nvidiactl"},
			want:    "No devices found.\n",
			code:    6,
		},
		"no control node": {
			devices: []string{"nvidia0", "nvidia1"},
			want:    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n",
			code:    9,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, code := smi(t, n.Container(t, tc.devices...).SMI, "-L")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nvidia-smi -L (-want +got):\n%s", diff)
			}
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
		})
	}
	t.Run("the node itself", func(t *testing.T) {
		got, code := smi(t, n.SMI, "-L")
		want := lineGPU(0, h100) + lineMIG(0, first) + lineMIG(1, second) + lineGPU(1, l40s)
		if diff := cmp.Diff(want, got); diff != "" || code != 0 {
			t.Errorf("exit code %d, nvidia-smi -L (-want +got):\n%s", code, diff)
		}
	})
}

func smi(t *testing.T, path string, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command(path, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

func TestSMIWithoutADriver(t *testing.T) {
	n := simnode.Start(t, "mixed")
	c := n.Container(t)
	if err := os.Remove(c.Root + "/run/nvidia-persistenced/socket"); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, c.SMI, "-L"); code != 9 || !strings.HasPrefix(out, "NVIDIA-SMI has failed because") {
		t.Errorf("without a daemon: exit code %d, %s", code, out)
	}
	if err := os.Remove(c.Library); err != nil {
		t.Fatal(err)
	}
	if out, code := smi(t, c.SMI, "-L"); code != 12 || !strings.HasPrefix(out, "NVIDIA-SMI couldn't find libnvidia-ml.so") {
		t.Errorf("without a library: exit code %d, %s", code, out)
	}
	if out, code := smi(t, c.SMI, "-q"); code != 2 || !strings.Contains(out, "stand-in") {
		t.Errorf("with an unknown argument: exit code %d, %s", code, out)
	}
}

// libraryVariable makes TestInContainer run as another process; see there.
const libraryVariable = "SIMNODE_TEST_LIBRARY"

func TestContainerMayNotChange(t *testing.T) {
	n := simnode.Start(t, "mixed")
	everything := []string{"nvidiactl", "nvidia0", "nvidia1", "nvidia-caps/nvidia-cap2"}
	tests := map[string]struct {
		devices []string
		want    string
	}{
		"without the right":  {everything, "SetMigMode 4, SetComputeMode 4\n"},
		"with the right":     {append(everything, "nvidia-caps/nvidia-cap1"), "SetMigMode 0, SetComputeMode 0\n"},
		"without the device": {[]string{"nvidiactl", "nvidia1", "nvidia-caps/nvidia-cap1"}, "SetMigMode 3, SetComputeMode 0\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestInContainer$")
			cmd.Env = append(os.Environ(), libraryVariable+"="+n.Container(t, tc.devices...).Library)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			first, _, _ := strings.Cut(string(out), "PASS")
			if diff := cmp.Diff(tc.want, first); diff != "" {
				t.Errorf("return codes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInContainer is no test of its own: TestContainerMayNotChange runs it in a
// process that has loaded no other libnvidia-ml.so.1.
func TestInContainer(t *testing.T) {
	path := os.Getenv(libraryVariable)
	if path == "" {
		t.Skip("runs only as the other process of TestContainerMayNotChange")
	}
	lib := nvml.New(nvml.WithLibraryPath(path))
	check(t, "Init", lib.Init())
	count, ret := lib.DeviceGetCount()
	check(t, "DeviceGetCount", ret)
	_, mode := gpu(t, lib, 0).SetMigMode(nvml.DEVICE_MIG_ENABLE)
	compute := gpu(t, lib, count-1).SetComputeMode(nvml.COMPUTEMODE_PROHIBITED)
	fmt.Printf("SetMigMode %d, SetComputeMode %d\n", mode, compute)
}
