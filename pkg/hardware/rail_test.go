package hardware

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// railNode makes a node out of paths as at takes them; a virtual function's path is
// followed by " of " and the address of its physical one.
func railNode(t *testing.T, gpus, nics []string) Node {
	t.Helper()
	var n Node
	for _, path := range gpus {
		p := at(t, path)
		n.GPUs = append(n.GPUs, GPU{PCI: p.PCI, PCIeRoot: p.PCIeRoot, NUMANode: p.NUMANode, Bridges: p.Bridges})
	}
	for _, path := range nics {
		path, parent, _ := strings.Cut(path, " of ")
		p := at(t, path)
		n.NICs = append(n.NICs, NIC{PCI: p.PCI, PCIeRoot: p.PCIeRoot, NUMANode: p.NUMANode, Bridges: p.Bridges, Parent: PCIAddress(parent)})
	}
	n.Sort()
	return n
}

func TestRails(t *testing.T) {
	// Two switches, each with a GPU and two NICs; the second NIC of the first switch
	// sits before its first one. The storage NIC shares a root with the first GPU.
	gpus := []string{
		"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0 0",
		"pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:00.0/0000:4b:00.0 0",
	}
	nics := []string{
		"pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:01.0/0000:4c:00.0 0",
		"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1d:00.0 0",
		"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1c:00.0 0",
		"pci0000:15/0000:15:03.0/0000:10:00.0 0",
	}
	vfs := []string{
		"pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:01.0/0000:4c:00.2 0 of 0000:4c:00.0",
		"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1c:00.1 0 of 0000:1c:00.0",
		"pci0000:15/0000:15:03.0/0000:10:00.1 0 of 0000:10:00.0",
	}
	tests := map[string]struct {
		gpus, nics []string
		configured map[PCIAddress]int
		want       map[PCIAddress]int
	}{
		"in the order of the switches": {gpus: gpus, nics: nics,
			want: map[PCIAddress]int{"0000:1c:00.0": 0, "0000:1d:00.0": 1, "0000:4c:00.0": 2}},
		"virtual functions": {gpus: gpus, nics: append(vfs, nics...),
			want: map[PCIAddress]int{"0000:1c:00.0": 0, "0000:1c:00.1": 0, "0000:1d:00.0": 1, "0000:4c:00.0": 2, "0000:4c:00.2": 2}},
		"virtual functions alone": {gpus: gpus, nics: vfs,
			want: map[PCIAddress]int{"0000:1c:00.1": 0, "0000:4c:00.2": 1}},
		"switches below a switch": {
			gpus: []string{
				"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0 0"},
			nics: []string{
				"pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0 0",
				"pci0000:15/0000:15:02.0/0000:2d:00.0 0"},
			want: map[PCIAddress]int{"0000:1d:00.0": 0}},
		"no switches": {
			gpus: []string{"pci0000:15/0000:15:01.0/0000:16:00.0 0"},
			nics: []string{"pci0000:15/0000:15:02.0/0000:17:00.0 0", "pci0000:25/0000:25:01.0/0000:26:00.0 0"},
			want: map[PCIAddress]int{"0000:17:00.0": 0}},
		"no NIC near a GPU": {
			gpus: []string{"pci0008:00/0008:00:00.0/0008:01:00.0 0"},
			nics: []string{"pci0002:00/0002:00:00.0/0002:01:00.0 0"},
			want: map[PCIAddress]int{}},
		"no GPUs": {nics: nics, want: map[PCIAddress]int{}},
		"configured": {gpus: gpus, nics: append(vfs, nics...),
			configured: map[PCIAddress]int{"0000:4c:00.0": 0, "0000:10:00.0": 7, "0000:1c:00.1": 3},
			want:       map[PCIAddress]int{"0000:4c:00.0": 0, "0000:4c:00.2": 0, "0000:10:00.0": 7, "0000:10:00.1": 7, "0000:1c:00.1": 3}},
		"configured for other servers": {gpus: gpus, nics: nics, configured: map[PCIAddress]int{"0000:ff:00.0": 5},
			want: map[PCIAddress]int{"0000:1c:00.0": 0, "0000:1d:00.0": 1, "0000:4c:00.0": 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Rails(railNode(t, tc.gpus, tc.nics), tc.configured)); diff != "" {
				t.Errorf("rails (-want +got):\n%s", diff)
			}
		})
	}
}
