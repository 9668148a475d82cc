package sysfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/sysfs"
)

const addr = hardware.PCIAddress("0000:3b:00.0")

// tree makes a sysfs whose device link points to target (no link if empty) and
// whose device directory has the file numa_node with the content (none if nil).
func tree(t *testing.T, target string, numaNode *string) sysfs.Tree {
	t.Helper()
	root := t.TempDir()
	devices := filepath.Join(root, "bus/pci/devices")
	must(t, os.MkdirAll(devices, 0o755))
	if target == "" {
		return sysfs.New(root)
	}
	must(t, os.Symlink(target, filepath.Join(devices, string(addr))))
	if numaNode != nil {
		dir := filepath.Join(devices, target)
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "numa_node"), []byte(*numaNode), 0o644))
	}
	return sysfs.New(root)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPCIeRoot(t *testing.T) {
	tests := map[string]struct {
		target  string
		want    string
		wantErr bool
	}{
		"directly below the root":                    {target: "../../../devices/pci0000:3a/0000:3b:00.0", want: "pci0000:3a"},
		"behind switches":                            {target: "../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0", want: "pci0000:3a"},
		"SYSF-02 under a virtual bus":                {target: "../../../devices/LNXSYSTM:00/VMBUS:01/0000:3b:00.0"},
		"SYSF-02 link into nowhere":                  {target: "../0000:3b:00.0", wantErr: true},
		"SYSF-02 no such device":                     {wantErr: true},
		"link to another device":                     {target: "../../../devices/pci0000:3a/0000:5e:00.0", wantErr: true},
		"link to another device under a virtual bus": {target: "../../../devices/VMBUS:01/0000:5e:00.0", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tree(t, tc.target, nil).PCIeRoot(addr)
			if (err != nil) != tc.wantErr || got != tc.want {
				t.Errorf("PCIeRoot = %q, %v; want %q, error %t", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestBridges(t *testing.T) {
	tests := map[string]struct {
		target  string
		want    []hardware.PCIAddress
		wantErr bool
	}{
		"directly below the root": {target: "../../../devices/pci0000:3a/0000:3b:00.0"},
		"below a root port":       {target: "../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0", want: []hardware.PCIAddress{"0000:3a:01.0"}},
		"behind a switch": {target: "../../../devices/pci0000:3a/0000:3a:01.0/0000:3c:00.0/0000:3d:00.0/0000:3b:00.0",
			want: []hardware.PCIAddress{"0000:3a:01.0", "0000:3c:00.0", "0000:3d:00.0"}},
		"behind a volume management device": {target: "../../../devices/pci0000:3a/0000:3a:05.5/pci10001:00/10001:00:02.0/0000:3b:00.0",
			want: []hardware.PCIAddress{"0000:3a:05.5", "10001:00:02.0"}},
		"SYSF-02 under a virtual bus": {target: "../../../devices/LNXSYSTM:00/VMBUS:01/0000:3b:00.0"},
		"SYSF-02 link into nowhere":   {target: "../0000:3b:00.0", wantErr: true},
		"SYSF-02 no such device":      {wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tree(t, tc.target, nil).Bridges(addr)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wantErr {
				t.Errorf("Bridges: %v, want error %t (-want +got):\n%s", err, tc.wantErr, diff)
			}
		})
	}
}

func TestNUMANode(t *testing.T) {
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	tests := map[string]struct {
		file    *string
		want    *int
		wantErr bool
	}{
		"known":                    {file: text("1\n"), want: number(1)},
		"SYSF-01 node 0 is a node": {file: text("0\n"), want: number(0)},
		"SYSF-01 unknown":          {file: text("-1\n")},
		"SYSF-01 no file":          {},
		"SYSF-01 empty":            {file: text(""), wantErr: true},
		"not a number":             {file: text("one\n"), wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, near, err := tree(t, "../../../devices/pci0000:3a/0000:3b:00.0", tc.file).NUMANodes(addr)
			if (err != nil) != tc.wantErr {
				t.Fatalf("NUMANodes: %v, want error %t", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(near) > 0 {
				t.Errorf("NUMANodes: near are %v (-want +got):\n%s", near, diff)
			}
		})
	}
}

// TestNUMANear: the nodes of a device's socket that are nearest to its own, as far as the
// kernel tells.
func TestNUMANear(t *testing.T) {
	// Two sockets with four nodes each; each node has one processor.
	distance := func(own int) string {
		var out []string
		for n := range 8 {
			switch {
			case n == own:
				out = append(out, "10")
			case n/4 == own/4:
				out = append(out, "12")
			default:
				out = append(out, "32")
			}
		}
		return strings.Join(out, " ")
	}
	sockets := func(perSocket int) map[string]string {
		files := map[string]string{}
		for n := range 8 {
			files[fmt.Sprintf("node/node%d/cpulist", n)] = fmt.Sprint(n)
			files[fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", n)] = fmt.Sprint(n / perSocket)
		}
		return files
	}
	tests := map[string]struct {
		perSocket int
		distances map[int]string
		want      []int
	}{
		"four nodes in a socket":     {perSocket: 4, distances: map[int]string{5: distance(5)}, want: []int{4, 6, 7}},
		"one node in a socket":       {perSocket: 1, distances: map[int]string{5: "21 21 21 21 21 10 21 21"}},
		"one nearer than the others": {perSocket: 4, distances: map[int]string{5: "32 32 32 32 12 10 13 13"}, want: []int{4}},
		"one node in all":            {perSocket: 8, distances: map[int]string{5: "10"}},
		"no distances":               {perSocket: 4},
		"not a number":               {perSocket: 4, distances: map[int]string{5: "far away"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write(m.function("pci0000:3a/"+string(addr)), map[string]string{"numa_node": "5"})
			m.write("devices/system", sockets(tc.perSocket))
			for n, row := range tc.distances {
				m.write(fmt.Sprintf("devices/system/node/node%d", n), map[string]string{"distance": row})
			}
			node, near, err := sysfs.New(m.root).NUMANodes(addr)
			must(t, err)
			if node == nil || *node != 5 {
				t.Errorf("node %v, want 5", node)
			}
			if diff := cmp.Diff(tc.want, near); diff != "" {
				t.Errorf("nodes near it (-want +got):\n%s", diff)
			}
		})
	}
}
