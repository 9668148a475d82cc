package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExportsAreUpToDate(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "exports.c")
	if err := generate(fresh); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../src/exports.c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("run go generate ./pkg/simhw/shim/gen; exports.c (-want +got):\n%s", diff)
	}
}

// Calling a function that the library lacks ends a program that uses go-nvml.
func TestEveryFunctionIsExported(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("../build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	f, err := elf.Open(filepath.Join(dir, "libnvidia-ml.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if names, err := f.DynString(elf.DT_SONAME); err != nil || len(names) != 1 || names[0] != "libnvidia-ml.so.1" {
		t.Errorf("soname %v, %v", names, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			exported[s.Name] = true
		}
	}
	for name := range declared(t) {
		if !exported[name] {
			t.Errorf("%s is not exported", name)
		}
		delete(exported, name)
	}
	for name := range exported {
		t.Errorf("%s is exported, but not declared in nvml.h", name)
	}
}

// declared are all functions of nvml.h and all that go-nvml calls.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	dir, err := command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for file, pattern := range map[string]string{
		"nvml.h":  `DECLDIR\s+(?:char\* )?(nvml\w+)\s*\(`,
		"nvml.go": `C\.(nvml\w+)\(`,
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "pkg/nvml", file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if len(found) < 300 {
			t.Fatalf("only %d functions found in %s", len(found), file)
		}
		for _, m := range found {
			if !strings.HasSuffix(m[1], "_t") {
				out[m[1]] = true
			}
		}
	}
	return out
}
