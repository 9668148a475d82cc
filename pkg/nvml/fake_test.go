package nvml_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/nvml"
)

// The calls that go-nvml binds stay bound to the library that was loaded first,
// so that a process has one library for its life: testdata/fake.c, or the variant
// that a test asks for in a process of its own (see variant).
var fake = os.Getenv("NVML_TEST_LIBRARY")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if fake != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "nvml")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	fake = compile(dir, "full")
	return m.Run()
}

// compile makes testdata/fake.c into a library.
func compile(dir, variant string, flags ...string) string {
	include, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, variant+".so")
	args := append(flags, "-w", "-shared", "-fPIC", "-DNVML_NO_UNVERSIONED_FUNC_DEFS",
		"-I"+strings.TrimSpace(string(include)), "-o", path, "testdata/fake.c")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	return path
}

// variant runs the test again in a process whose library is compiled with the
// flags, and tells whether this is that process.
func variant(t *testing.T, flags ...string) bool {
	t.Helper()
	if os.Getenv("NVML_TEST_LIBRARY") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), "NVML_TEST_LIBRARY="+compile(t.TempDir(), "variant", flags...))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("with %v: %v\n%s", flags, err, out)
	}
	return false
}

// newDriver is a driver on the fake library with so many GPUs. What a test
// leaves on the first GPU is removed after it.
func newDriver(t *testing.T, gpus int) *nvml.Driver {
	t.Helper()
	d := nvml.New(nvml.Config{LibraryPath: fake, DestroyTimeout: 200 * time.Millisecond})
	t.Setenv("FAKE_GPUS", fmt.Sprint(gpus))
	t.Cleanup(func() { // runs before the variable is taken back, after the faults are
		ctx := context.WithoutCancel(t.Context())
		list, _ := d.Instances(ctx, gpu(0))
		for _, gi := range list {
			for _, ci := range gi.Compute {
				_ = d.DestroyComputeInstance(ctx, gpu(0), gi.ID, ci.ID)
			}
			_ = d.DestroyGPUInstance(ctx, gpu(0), gi.ID)
		}
		_ = d.SetMIGMode(ctx, gpu(0), false)
		d.Close()
	})
	return d
}

// gpu is the fake's GPU with the index i.
func gpu(i int) hardware.GPUID {
	return hardware.GPUID{PCI: hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 0x10+i)), UUID: fmt.Sprintf("GPU-%d", i)}
}

// faults sets what goes wrong from now on; none heals everything.
func faults(t *testing.T, list ...string) {
	t.Helper()
	t.Setenv("FAKE_FAULTS", strings.Join(list, ","))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
