package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// state of a path, as a reader finds it.
func found(root, path string) string {
	full := filepath.Join(root, path)
	if info, err := os.Stat(full); err == nil && info.Mode()&fs.ModeDevice != 0 {
		return "device"
	}
	content, err := os.ReadFile(full)
	if err == nil {
		return string(content)
	}
	if target, linked := os.Readlink(full); linked == nil {
		return "link to " + target
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

func TestFaults(t *testing.T) {
	const numa = "sys/bus/pci/devices/0000:3b:00.0/numa_node"
	const missing = "no such file or directory"
	empty, minus := "", "-1\n"
	tests := map[string]struct {
		path  string
		fault Fault
		want  string
		views bool
	}{
		"device node missing (CDI-01)":   {"dev/nvidia0", Fault{Missing: true}, missing, true},
		"MIG config missing (INST-04)":   {"dev/nvidia-caps/nvidia-cap1", Fault{Missing: true}, missing, true},
		"no NUMA node (SYSF-01)":         {numa, Fault{Missing: true}, missing, false},
		"NUMA node -1 (SYSF-01)":         {numa, Fault{Content: &minus}, "-1\n", false},
		"NUMA node empty (SYSF-01)":      {numa, Fault{Content: &empty}, "", false},
		"NUMA node unreadable (SYSF-01)": {numa, Fault{Unreadable: true}, "is a directory", false},
		"dangling device (SYSF-02)":      {"sys/bus/pci/devices/0000:3b:00.0", Fault{Dangling: true}, "link to nowhere", false},
		"no PCI bus (SYSF-02)":           {"sys/bus/pci", Fault{Missing: true}, missing, false},
		"no capability class (SYSF-05)":  {"/proc/devices", Fault{Without: "nvidia-caps"}, "Character devices:\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n385 nvidia-uvm\n\nBlock devices:\n", false},
		"capability class twice (SYSF-05)": {"proc/devices", Fault{Twice: "nvidia-caps"},
			"Character devices:\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n384 nvidia-caps\n384 nvidia-caps\n385 nvidia-uvm\n\nBlock devices:\n", false},
		"a whole directory": {"dev/nvidia-caps", Fault{Missing: true}, missing, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tr, s := newTree(t)
			if err := tr.Sync(s); err != nil {
				t.Fatal(err)
			}
			views := 0
			tr.ViewsChanged = func() { views++ }
			before := files(t, tr.Root)
			if err := tr.SetFault(tc.path, tc.fault, 0); err != nil {
				t.Fatal(err)
			}
			if got := found(tr.Root, tc.path); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
			if (views > 0) != tc.views {
				t.Errorf("clients' views changed %d times, want %t", views, tc.views)
			}
			// A change of the hardware leaves the fault as it is.
			s.GPUs[1].Absent = true
			if err := tr.Sync(s); err != nil {
				t.Fatal(err)
			}
			if got := found(tr.Root, tc.path); got != tc.want {
				t.Errorf("after a change found %q, want %q", got, tc.want)
			}
			s.GPUs[1].Absent = false
			if err := errors.Join(tr.ClearFault(tc.path), tr.Sync(s)); err != nil {
				t.Fatal(err)
			}
			if diff := difference(before, files(t, tr.Root)); len(diff) > 0 || len(tr.Faults()) > 0 {
				t.Errorf("not as before: %v, faults %v", diff, tr.Faults())
			}
			checkContents(t, tr, s)
		})
	}
}

// DISC-05: something comes late. A daemon that starts again makes all right, too.
func TestFaultEnds(t *testing.T) {
	tr, s := newTree(t)
	if err := tr.Sync(s); err != nil {
		t.Fatal(err)
	}
	back := make(chan bool, 2)
	tr.ViewsChanged = func() { back <- true }
	if err := tr.SetFault("dev/nvidia0", Fault{Missing: true}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	<-back
	<-back
	if got := found(tr.Root, "dev/nvidia0"); got != "device" {
		t.Errorf("later: %s", got)
	}
	if err := tr.SetFault("proc/devices", Fault{Unreadable: true}, 0); err != nil {
		t.Fatal(err)
	}
	tr = New(tr.Config)
	if err := tr.Sync(s); err != nil {
		t.Fatal(err)
	}
	checkContents(t, tr, s)
}

func TestFaultIsRefused(t *testing.T) {
	tr, s := newTree(t)
	if err := tr.Sync(s); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path  string
		fault Fault
		want  string
	}{
		"nothing":       {"dev/nvidia0", Fault{}, "exactly one"},
		"two":           {"dev/nvidia0", Fault{Missing: true, Dangling: true}, "exactly one"},
		"no such file":  {"dev/nvidia9", Fault{Missing: true}, "there is no dev/nvidia9"},
		"outside":       {"../etc/passwd", Fault{Missing: true}, "there is no"},
		"a directory's": {"dev", Fault{Dangling: true}, "there is no dev"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tr.SetFault(tc.path, tc.fault, 0); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if err := tr.ClearFault("dev/nvidia0"); err == nil {
		t.Error("a fault was cleared that is not there")
	}
}
