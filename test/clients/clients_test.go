// Package clients_test runs NVML clients of others against simulated hardware:
// programs that know only nvml.h, and NVIDIA's own examples.
package clients_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// compile builds a C program of testdata with NVIDIA's nvml.h.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	module := run(t, exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml"))
	program := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", filepath.Join(strings.TrimSpace(module), "pkg/nvml"),
		"-o", program, filepath.Join("testdata", source)}, flags...)
	run(t, exec.Command("gcc", args...))
	return program
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run %s: %v: %s", cmd, err, stderr.String())
	}
	return string(out)
}

func TestPlainC(t *testing.T) {
	n := simnode.Start(t, "mixed")
	program := compile(t, "mig.c", n.Library, "-Wl,-rpath,"+filepath.Dir(n.Library))
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		got = append(got, lines.Text())
		if lines.Text() == "waiting" {
			if _, err := n.Ctl("event", "--gpu=0", "--xid=94", "--instance=3", "--compute-instance=0"); err != nil {
				t.Error(err)
			}
		}
	}
	want := []string{
		"GPU 0: NVIDIA H100 80GB HBM3 at 00000000:3B:00.0, 81559 MiB",
		"GPU 1: NVIDIA L40S at 00000000:86:00.0, 46068 MiB",
		"MIG device 1: MIG-, GPU instance of 9984 MiB: numbered",
		"gone: 6",
		"without an event: 10",
		"waiting",
		"event 8 with 94 on the GPU, instances 3 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the client says (-want +got):\n%s", diff)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, in := range n.State().GPUs[0].Instances {
		t.Errorf("GPU instance %d is left", in.ID)
	}
}

// local are answered by the library itself.
var local = []string{"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}

// A call with null pointers, whatever it is, gets an answer and never success,
// unless it takes no argument that could be missing.
func TestNullArguments(t *testing.T) {
	n := simnode.Start(t, "mixed")
	f, err := elf.Open(n.Library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && !slices.Contains(local, s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) < 400 {
		t.Fatalf("only %d functions found", len(names))
	}
	cmd := exec.Command(compile(t, "null.c", "-ldl"), n.Library)
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	answers := strings.Split(strings.TrimSpace(run(t, cmd)), "\n")
	if len(answers) != len(names) {
		t.Errorf("%d answers to %d calls", len(answers), len(names))
	}
	for _, a := range answers {
		var name string
		var ret nvml.Return
		if _, err := fmt.Sscan(a, &name, &ret); err != nil {
			t.Fatalf("answer %q: %v", a, err)
		}
		if ret != nvml.ERROR_INVALID_ARGUMENT && ret != nvml.ERROR_NOT_SUPPORTED && ret != nvml.ERROR_NOT_FOUND && ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			t.Errorf("%s with nothing: %d", name, ret)
		}
	}
}

// NVIDIA's examples of go-nvml find the library by the loader's path.
func TestExamplesOfGoNVML(t *testing.T) {
	n := simnode.Start(t, "mixed")
	dir := t.TempDir()
	const module = "github.com/NVIDIA/go-nvml/examples/"
	run(t, exec.Command("go", "build", "-o", dir+"/", module+"devices", module+"compute-processes", module+"gpm-metrics", module+"dl"))
	gpus := n.State().GPUs
	tests := map[string]struct {
		args []string
		want string
	}{
		"devices":           {nil, fmt.Sprintf("uuid=%s\nmode={.*}\nuuid=%s\nmode={.*}\n", gpus[0].UUID, gpus[1].UUID)},
		"compute-processes": {nil, "Found 0 processes on device 0\nFound 0 processes on device 1\n"},
		"gpm-metrics":       {nil, ".*1: 0\n.*failed to get metrics for device 1: GPM queries are not supported\n+"},
		"dl":                {[]string{"libnvidia-ml.so.1"}, ".*libraryPath=" + regexp.QuoteMeta(n.Library) + "\n.*resolvedPath=.*\n.*library closed\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(filepath.Join(dir, name), tc.args...)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(n.Library))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v", err)
			}
			if !regexp.MustCompile("^" + tc.want + "$").Match(out) {
				t.Errorf("printed\n%s\nwant\n%s", out, tc.want)
			}
		})
	}
}
