package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCheckNoHardware(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":        {nil, ""},
		"a network card": {map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x020000\n"}, ""},
		"another GPU":    {map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x1002\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n"}, ""},
		"a real GPU":     {map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n"}, "there is a real NVIDIA GPU at 0000:01:00.0"},
		"the driver":     {map[string]string{"proc/driver/nvidia/version": "NVRM version: 1"}, "the NVIDIA driver is loaded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, content := range tc.files {
				put(t, filepath.Join(dir, path), content)
			}
			err := Host{Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys")}.CheckNoHardware()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMajors(t *testing.T) {
	dir := t.TempDir()
	h := Host{Proc: dir}
	file := filepath.Join(dir, "majors.json")
	put(t, filepath.Join(dir, "devices"), "Character devices:\n  1 mem\n384 someone\n\nBlock devices:\n195 notchar\n386 notchar\n")
	first, err := h.Majors(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(serve.Majors{GPU: 195, Capability: 385, UVM: 386, InfiniBand: 231, Misc: 387}, first); diff != "" {
		t.Errorf("majors (-want +got):\n%s", diff)
	}
	put(t, filepath.Join(dir, "devices"), "Character devices:\n  1 mem\n")
	again, err := h.Majors(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("majors changed (-want +got):\n%s", diff)
	}
	put(t, filepath.Join(dir, "devices"), "Character devices:\n386 newcomer\n")
	if _, err := h.Majors(file); err == nil || !strings.Contains(err.Error(), `now belongs to "newcomer"`) {
		t.Errorf("a conflict: %v", err)
	}
	put(t, filepath.Join(dir, "devices"), "Character devices:\n195 nvidia\n")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if m, err := h.Majors(file); err != nil || m.GPU != 384 {
		t.Errorf("195 is taken: %+v, %v", m, err)
	}
	put(t, filepath.Join(dir, "devices"), "Character devices:\n231 infiniband_mad\n")
	put(t, file, `{"gpu":195,"capability":384,"uvm":385}`)
	want := serve.Majors{GPU: 195, Capability: 384, UVM: 385, InfiniBand: 386, Misc: 387}
	for range 2 { // the second time they are in the file
		m, err := h.Majors(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("a file from before there were NICs (-want +got):\n%s", diff)
		}
	}
}

func TestMIGMinorsListsAll(t *testing.T) {
	text := migMinors()
	for _, line := range []string{"config 1\n", "monitor 2\n", "gpu0/gi0/access 3\n", "gpu0/gi1/ci0/access 13\n", "gpu31/gi14/ci7/access 4322\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q", line)
		}
	}
}
