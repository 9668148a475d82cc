package tree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

var testMajors = serve.Majors{GPU: 195, Capability: 384, UVM: 385, InfiniBand: 231, Misc: 386}

// newTree is one of the server mixed with what it is made from, without NICs, which
// would be most of the files.
func newTree(t *testing.T) (*Tree, simhw.Snapshot) {
	t.Helper()
	tr, e := newTreeOf(t, "mixed")
	s := e.Snapshot()
	tr.Server.NICs, s.NICs = nil, nil
	return tr, s
}

// newTreeOf is one of any server, which does not follow the engine by itself.
func newTreeOf(t *testing.T, name string) (*Tree, *simhw.Engine) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make device nodes (mknod)")
	}
	server, _, err := catalog.LoadServer(name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := simhw.NewEngine(server, simhw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lib := t.TempDir()
	for _, name := range append(libraryNames(), "program") {
		put(t, filepath.Join(lib, name), name)
	}
	return New(Config{
		Root: t.TempDir(), Libraries: lib, Executable: filepath.Join(lib, "program"), Server: server,
		Majors: testMajors,
	}), e
}

// changed is the state after a change.
func changed(s simhw.Snapshot, change func(*simhw.Snapshot)) simhw.Snapshot {
	s.GPUs = slices.Clone(s.GPUs)
	change(&s)
	return s
}

// files are all below the root except directories.
func files(t *testing.T, root string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, path)
			out[rel] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// difference has "+" before what is new and "-" before what is gone.
func difference(before, after map[string]bool) []string {
	var out []string
	for path := range before {
		if !after[path] {
			out = append(out, "-"+path)
		}
	}
	for path := range after {
		if !before[path] {
			out = append(out, "+"+path)
		}
	}
	slices.Sort(out)
	return out
}

func lib(name, version string) string { return filepath.Join(libraryDir(), name+"."+version) }

// What comes and goes with each change, and goes and comes when it is undone; once
// by the same tree and once by a new one that finds the files of the old.
func TestSync(t *testing.T) {
	const h100, l40s = "0000:3b:00.0", "0000:86:00.0"
	one := func(s *simhw.Snapshot) {
		s.GPUs[0].Instances = []simhw.InstanceState{{ID: 2, Compute: []simhw.ComputeState{{ID: 0}}}, {ID: 7}}
	}
	tests := map[string]struct {
		change func(*simhw.Snapshot)
		want   []string
		views  bool
	}{
		"instances": {one, []string{
			"+dev/nvidia-caps/nvidia-cap21", "+dev/nvidia-caps/nvidia-cap22", "+dev/nvidia-caps/nvidia-cap66",
			"+proc/driver/nvidia/capabilities/gpu0/mig/gi2/access", "+proc/driver/nvidia/capabilities/gpu0/mig/gi2/ci0/access",
			"+proc/driver/nvidia/capabilities/gpu0/mig/gi7/access",
		}, false},
		"unplugged": {func(s *simhw.Snapshot) { s.GPUs[1].Absent = true }, []string{
			"-dev/nvidia1", "-proc/driver/nvidia/gpus/" + l40s + "/information", "-sys/bus/pci/devices/" + l40s,
			"-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/class", "-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/device",
			"-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/numa_node", "-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/subsystem_device",
			"-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/subsystem_vendor", "-sys/devices/pci0000:85/0000:85:01.0/" + l40s + "/vendor",
		}, true},
		"another minor": {func(s *simhw.Snapshot) { s.GPUs[0].Minor = 4 }, []string{"+dev/nvidia4", "-dev/nvidia0"}, true},
		"unloaded": {func(s *simhw.Snapshot) { s.Driver.Unloaded = true }, []string{
			"-proc/driver/nvidia-caps/mig-minors", "-proc/driver/nvidia/capabilities/mig/config", "-proc/driver/nvidia/capabilities/mig/monitor",
			"-proc/driver/nvidia/gpus/" + h100 + "/information", "-proc/driver/nvidia/gpus/" + l40s + "/information", "-proc/driver/nvidia/version",
		}, false},
		"device nodes gone": {func(s *simhw.Snapshot) { s.Driver.NodesGone = true }, []string{
			"-dev/nvidia-caps/nvidia-cap1", "-dev/nvidia-caps/nvidia-cap2", "-dev/nvidia-modeset", "-dev/nvidia-uvm",
			"-dev/nvidia-uvm-tools", "-dev/nvidia0", "-dev/nvidia1", "-dev/nvidiactl",
		}, true},
		"another version": {func(s *simhw.Snapshot) { s.Driver.Version = "595.58.03" }, []string{
			"+" + lib("libcuda.so", "595.58.03"), "+" + lib("libnvidia-ml.so", "595.58.03"),
			"-" + lib("libcuda.so", "580.95.05"), "-" + lib("libnvidia-ml.so", "580.95.05"),
		}, false},
		"no version":   {func(s *simhw.Snapshot) { s.Driver.Version = "" }, nil, false},
		"replaced":     {func(s *simhw.Snapshot) { s.GPUs[0].UUID = "GPU-other" }, nil, false},
		"lost":         {func(s *simhw.Snapshot) { s.GPUs[0].Lost = true }, nil, false},
		"another boot": {func(s *simhw.Snapshot) { s.BootID = "other" }, nil, false},
	}
	for name, tc := range tests {
		for _, same := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				tr, s := newTree(t)
				views := 0
				step := func(s simhw.Snapshot) map[string]bool {
					if !same {
						tr = New(tr.Config)
					}
					if err := tr.Sync(s); err != nil {
						t.Fatal(err)
					}
					tr.ViewsChanged = func() { views++ }
					return files(t, tr.Root)
				}
				before := step(s)
				after := step(changed(s, tc.change))
				if diff := cmp.Diff(tc.want, difference(before, after)); diff != "" {
					t.Errorf("changed (-want +got):\n%s", diff)
				}
				if same && (views > 0) != tc.views {
					t.Errorf("clients' views changed %d times, want %t", views, tc.views)
				}
				if diff := difference(before, step(s)); len(diff) > 0 {
					t.Errorf("not as before: %v", diff)
				}
				checkContents(t, tr, s)
			})
		}
	}
}

// checkContents compares with a tree that is made anew.
func checkContents(t *testing.T, tr *Tree, s simhw.Snapshot) {
	t.Helper()
	config := tr.Config
	config.Root = t.TempDir()
	if err := New(config).Sync(s); err != nil {
		t.Fatal(err)
	}
	for path := range files(t, config.Root) {
		if strings.HasPrefix(path, "dev/") {
			continue
		}
		if want, got := found(config.Root, path), found(tr.Root, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for _, g := range s.GPUs {
		if info, err := os.Stat(filepath.Join(tr.Root, migDir(g.Minor))); g.MIGCapable && (err != nil || !info.IsDir()) {
			t.Errorf("no directory for the MIG capabilities of GPU %d: %v", g.Index, err)
		}
	}
}
