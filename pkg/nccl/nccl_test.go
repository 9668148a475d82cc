package nccl_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/nccl"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

func device(name string, layer string, ports ...int) hardware.RDMADevice {
	d := hardware.RDMADevice{Name: name}
	for _, p := range ports {
		d.Ports = append(d.Ports, hardware.RDMAPort{Number: p, LinkLayer: layer, State: hardware.PortActive, BitsPerSecond: 400e9})
	}
	return d
}

func ib(name string, ports ...int) hardware.NIC {
	return hardware.NIC{RDMA: []hardware.RDMADevice{device(name, hardware.LinkLayerInfiniBand, ports...)}}
}

func TestHCA(t *testing.T) {
	xdr := ib("mlx5_2", 1)
	xdr.RDMA = append(xdr.RDMA, device("smi1", hardware.LinkLayerInfiniBand, 1, 2, 3, 4))
	tests := map[string]struct {
		nics []hardware.NIC
		want string
	}{
		"none":                {},
		"no RDMA device":      {nics: []hardware.NIC{{}}},
		"two":                 {nics: []hardware.NIC{ib("mlx5_0", 1), ib("mlx5_1", 1)}, want: "=mlx5_0:1,mlx5_1:1"},
		"two ports":           {nics: []hardware.NIC{ib("mlx5_0", 1, 2)}, want: "=mlx5_0:1,mlx5_0:2"},
		"not the manager's":   {nics: []hardware.NIC{xdr}, want: "=mlx5_2:1"},
		"a bond's one device": {nics: []hardware.NIC{ib("mlx5_bond_0", 1)}, want: "=mlx5_bond_0:1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nccl.HCA(tc.nics); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := nccl.Env(tc.nics); (len(got) == 2) != (tc.want != "") {
				t.Errorf("environment %v", got)
			}
		})
	}
}

func bridges(of ...string) (out []hardware.PCIAddress) {
	for _, b := range of {
		out = append(out, hardware.PCIAddress(b))
	}
	return out
}

func numa(n int) *int { return &n }

// The claim has a GPU and a NIC behind one switch, a GPU and a NIC behind two levels of
// switches, and a NIC on a root port, whose NUMA node nobody knows.
func claim() ([]hardware.GPU, []hardware.NIC) {
	gpus := []hardware.GPU{
		{PCI: "0000:9d:00.0", NUMANode: numa(1), CUDAComputeCapability: "9.0", Bridges: bridges("0000:97:01.0", "0000:98:00.0", "0000:99:00.0", "0000:9a:00.0", "0000:9b:00.0")},
		{PCI: "0000:1b:00.0", NUMANode: numa(0), CUDAComputeCapability: "9.0", Bridges: bridges("0000:15:01.0", "0000:16:00.0", "0000:17:04.0")},
	}
	near, deep, root := ib("mlx5_0", 1), ib("mlx5_6", 1), hardware.NIC{RDMA: []hardware.RDMADevice{device("mlx5_1", hardware.LinkLayerEthernet, 1)}}
	near.PCI, near.NUMANode, near.Bridges = "0000:18:00.0", numa(0), bridges("0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
	deep.PCI, deep.NUMANode, deep.Bridges = "0000:9c:00.0", numa(1), bridges("0000:97:01.0", "0000:98:00.0", "0000:99:00.0", "0000:9a:00.0", "0000:9b:01.0")
	root.PCI, root.Bridges = "0000:29:00.0", bridges("0000:28:01.0")
	return gpus, []hardware.NIC{deep, near, root}
}

func TestTopologyGolden(t *testing.T) {
	gpus, nics := claim()
	tests := map[string][]byte{
		"both": nccl.Topology(gpus, nics),
		"nics": nccl.Topology(nil, nics[1:2]),
	}
	for name, got := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".xml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s; if this is meant, run the test with -update (-want +got):\n%s", path, diff)
			}
			read(t, got)
		})
	}
	slices.Reverse(gpus)
	slices.Reverse(nics)
	if diff := cmp.Diff(string(tests["both"]), string(nccl.Topology(gpus, nics))); diff != "" {
		t.Errorf("in another order (-want +got):\n%s", diff)
	}
}

// read holds a file against what NCCL asks of it (xml.cc, topo.cc): the elements that
// it has handlers for, each in the place where it looks for them, and under a net what
// it does not complete by itself.
func read(t *testing.T, file []byte) {
	t.Helper()
	parents := map[string][]string{"system": {""}, "cpu": {"system"}, "pci": {"cpu", "pci"}, "gpu": {"pci"}, "nic": {"pci", "cpu"}}
	required := map[string][]string{"system": {"version"}, "cpu": {"numaid"}, "pci": {"busid", "class"}}
	forbidden := []string{"rail", "plane", "guid", "dev", "rank", "keep"}

	path := []xml.StartElement{}
	decoder := xml.NewDecoder(bytes.NewReader(file))
	for {
		token, err := decoder.Token()
		if token == nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			parent := ""
			if len(path) > 0 {
				parent = path[len(path)-1].Name.Local
			}
			if !slices.Contains(parents[e.Name.Local], parent) {
				t.Errorf("%s in %s", e.Name.Local, parent)
			}
			lacks(t, e, required[e.Name.Local])
			for _, a := range e.Attr {
				if slices.Contains(forbidden, a.Name.Local) {
					t.Errorf("%s has %s", e.Name.Local, a.Name.Local)
				}
			}
			path = append(path, e.Copy())
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

func lacks(t *testing.T, e xml.StartElement, attributes []string) {
	t.Helper()
	for _, want := range attributes {
		if !slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == want && a.Value != "" }) {
			t.Errorf("%s lacks %s: %v", e.Name.Local, want, e.Attr)
		}
	}
}
