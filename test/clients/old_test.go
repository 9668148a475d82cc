package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/nvml"
	"github.com/cleave-dra/cleave/test/testkit/drivertest"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// rootVariable and migVariable make TestInOldProcess run as another process.
const (
	rootVariable = "CLIENTS_TEST_ROOT"
	migVariable  = "CLIENTS_TEST_MIG"
)

// oldLibrary is where an old library lies beside the new one of a simulated node.
func oldLibrary(root string) string { return filepath.Join(root, "usr/lib64/libnvidia-ml.so.1") }

// The adapter of the node plugin must do with the functions that an old driver
// has: calling one that is missing would end the process. With CUDA 11.6 all is
// there that MIG needs, with 11.1 GPUs are whole.
func TestOldDriverDISC06(t *testing.T) {
	for version, mig := range map[string]string{"11.1": "", "11.6": "yes"} {
		t.Run(version, func(t *testing.T) {
			n := simnode.Start(t, "mixed")
			libraries := t.TempDir()
			run(t, exec.Command("../../pkg/simhw/shim/build.sh", libraries))
			content, err := os.ReadFile(filepath.Join(libraries, "libnvml-"+version+".so"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(oldLibrary(n.Root)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(oldLibrary(n.Root), content, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestInOldProcess$", "-test.v")
			cmd.Env = append(os.Environ(), rootVariable+"="+n.Root, migVariable+"="+mig)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestInOldProcess is no test of its own: TestOldDriverDISC06 runs it in a process
// that has loaded no other libnvidia-ml.so.1.
func TestInOldProcess(t *testing.T) {
	root := os.Getenv(rootVariable)
	if root == "" {
		t.Skip("runs only as the other process of TestOldDriverDISC06")
	}
	d := nvml.New(nvml.Config{LibraryPath: oldLibrary(root), DevRoot: root, ProcRoot: filepath.Join(root, "proc")})
	defer d.Close()
	node, skipped, err := d.Node(t.Context())
	if err != nil || len(skipped) > 0 {
		t.Fatalf("left out %v, %v", skipped, err)
	}
	var got []string
	for _, g := range node.GPUs {
		got = append(got, g.ProductName+" "+describe(g))
	}
	want := []string{"NVIDIA H100 80GB HBM3 whole", "NVIDIA L40S whole"}
	if os.Getenv(migVariable) != "" {
		want[0] = "NVIDIA H100 80GB HBM3 with MIG"
		drivertest.Run(t, d)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

func describe(g hardware.GPU) string {
	if g.MIG != nil {
		return "with MIG"
	}
	return "whole"
}
