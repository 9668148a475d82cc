package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

func servers(t *testing.T) map[string]Server {
	t.Helper()
	out := map[string]Server{}
	for _, name := range Servers() {
		s, _, err := LoadServer(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = s
	}
	return out
}

// places are those of all GPUs and NICs.
func places(s Server) []hardware.Place {
	var out []hardware.Place
	n := s.Node()
	for _, g := range n.GPUs {
		out = append(out, g.Place())
	}
	for _, nic := range n.NICs {
		out = append(out, nic.Place())
	}
	return out
}

// TestServers has what distinguishes the servers.
func TestServers(t *testing.T) {
	type board struct {
		GPUs         int
		Model        string
		NVLinks, Gen int
		Fabric       Fabric
		Nodes        int
	}
	none, local, rack := Fabric{}, Fabric{Registered: true}, Fabric{Registered: true, Rack: true, Clique: 2}
	want := map[string]board{
		"16-gpu":         {16, "h200-141gb", 18, 4, local, 2},
		"a30x4":          {4, "a30-24gb", 0, 0, none, 2},
		"dgx-a100":       {8, "a100-80gb-sxm", 12, 3, none, 8},
		"dgx-h100":       {8, "h100-80gb-sxm", 18, 4, local, 2},
		"gb200-tray":     {4, "gb200-186gb", 18, 5, rack, 2},
		"hgx-b200":       {8, "b200-180gb", 18, 5, local, 2},
		"hgx-h200":       {8, "h200-141gb", 18, 4, local, 2},
		"mixed":          {2, "h100-80gb-sxm", 0, 0, none, 2},
		"roce-vf":        {2, "h100-80gb-pcie", 0, 0, none, 2},
		"rtx-pro-6000x8": {8, "rtx-pro-6000-blackwell", 0, 0, none, 2},
		"xdr":            {1, "b200-180gb", 0, 0, none, 2},
	}
	got := map[string]board{}
	for name, s := range servers(t) {
		got[name] = board{len(s.GPUs), s.GPUs[0].Model.Name, s.NVLinksPerGPU, s.NVLinkVersion, s.Fabric, len(s.NUMACPUs)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

// TestServersAreTrees asks that each bridge has one place only, below one root
// complex, and that no GPU or NIC is a bridge.
func TestServersAreTrees(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			parents, leaves := map[hardware.PCIAddress]string{}, map[string]bool{}
			for _, p := range places(s) {
				parent := p.PCIeRoot
				for _, address := range append(slices.Clone(p.Bridges), p.PCI) {
					if known, ok := parents[address]; ok && known != parent {
						t.Errorf("%s is below %s and below %s", address, known, parent)
					}
					parents[address] = parent
					parent = string(address)
				}
				if leaves[string(p.PCI)] {
					t.Errorf("%s is there twice", p.PCI)
				}
				leaves[string(p.PCI)] = true
				if root := strings.TrimPrefix(p.PCIeRoot, "pci"); len(p.Bridges) > 0 && !strings.HasPrefix(string(p.Bridges[0]), root+":") {
					t.Errorf("%s: the first bridge %s is not on the bus of %s", p.PCI, p.Bridges[0], p.PCIeRoot)
				}
			}
			for address, parent := range parents {
				if leaves[parent] {
					t.Errorf("%s is below %s, which is no bridge", address, parent)
				}
			}
		})
	}
}

// TestSharedSwitches has which GPUs share a PCIe switch, as indices.
func TestSharedSwitches(t *testing.T) {
	want := map[string][][]int{
		"dgx-a100": {{0, 1}, {2, 3}, {4, 5}, {6, 7}},
		"16-gpu":   {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}},
	}
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			var got [][]int
			for i, g := range s.GPUs {
				for j, other := range s.GPUs[:i] {
					if len(g.Bridges) > 1 && len(other.Bridges) > 1 && g.Bridges[1] == other.Bridges[1] {
						got = append(got, []int{j, i})
					}
				}
			}
			if diff := cmp.Diff(want[name], got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestModulesAndNodesOfGB200(t *testing.T) {
	var modules, nodes []int
	for _, g := range servers(t)["gb200-tray"].GPUs {
		modules, nodes = append(modules, g.ModuleID), append(nodes, g.NUMANode)
	}
	if diff := cmp.Diff([]int{2, 1, 4, 3}, modules); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 0, 1, 1}, nodes); diff != "" {
		t.Errorf("NUMA nodes (-want +got):\n%s", diff)
	}
}

// TestNVLink: the GPUs of a tray are in a fabric with a UUID of its own, those of a
// single server in one without.
func TestNVLink(t *testing.T) {
	all := servers(t)
	tray, again, other := all["gb200-tray"].NVLink("a"), all["gb200-tray"].NVLink("a"), all["gb200-tray"].NVLink("b")
	if len(tray.Cluster) != 36 || *tray != *again || tray.Cluster == other.Cluster || tray.Clique != 2 {
		t.Errorf("fabrics of trays: %+v, %+v, %+v", tray, again, other)
	}
	if diff := cmp.Diff(&hardware.NVLinkFabric{}, all["dgx-h100"].NVLink("a")); diff != "" {
		t.Errorf("fabric within a server (-want +got):\n%s", diff)
	}
	if f := all["mixed"].NVLink("a"); f != nil {
		t.Errorf("fabric without switches: %+v", f)
	}
}

func TestBoardRefused(t *testing.T) {
	tests := map[string]struct {
		spoil func(*serverFile, *Server)
		want  string
	}{
		"links without version": {func(f *serverFile, s *Server) { f.NVLink.Value.PerGPU, s.GPUs[0].Model.NVLink = 18, true }, "nvlink: 18 links of version 0: both or none"},
		"fabric without links":  {func(f *serverFile, _ *Server) { f.Fabric.Value.Registered = true }, "fabric: there is none without NVLinks"},
		"parts of no fabric":    {func(f *serverFile, _ *Server) { f.Fabric.Value.Clique = 2 }, "fabric: has properties, but GPUs do not register with it"},
		"links of a GPU without": {func(f *serverFile, s *Server) {
			*f.NVLink.Value = nvlinkFile{18, 4}
			s.GPUs[0].Model.Name = "t4"
		}, "nvlink: model t4 has no NVLink"},
		"unknown node":     {func(_ *serverFile, s *Server) { s.GPUs[0].NUMANode = 3 }, "gpus[0].numaNode: numaCPUs has no node 3"},
		"not a list":       {func(f *serverFile, _ *Server) { (*f.NUMACPUs.Value)[0] = "0-a" }, `numaCPUs[0]: parse list of processors "0-a"`},
		"empty":            {func(f *serverFile, _ *Server) { (*f.NUMACPUs.Value)[0] = "" }, `numaCPUs[0]: parse list of processors ""`},
		"backwards":        {func(f *serverFile, _ *Server) { (*f.NUMACPUs.Value)[0] = "3-1" }, `numaCPUs[0]: parse list of processors "3-1": 3-1 runs backwards`},
		"in two nodes":     {func(f *serverFile, _ *Server) { (*f.NUMACPUs.Value)[1] = "3" }, "numaCPUs[1]: processor 3 is in node 0 already"},
		"links not known":  {func(f *serverFile, _ *Server) { f.NVLink.Value = nil }, "nvlink: value is not known"},
		"fabric not known": {func(f *serverFile, _ *Server) { f.Fabric.Value = nil }, "fabric: value is not known"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := newReader("server x", nil)
			if err != nil {
				t.Fatal(err)
			}
			madeUp := provenance{Inferred: "made-up"}
			f := serverFile{
				NVLink:   fact[nvlinkFile]{madeUp, &nvlinkFile{}},
				Fabric:   fact[Fabric]{madeUp, &Fabric{}},
				NUMACPUs: fact[map[int]string]{madeUp, &map[int]string{0: "0-3", 1: "4,6"}},
			}
			s := Server{GPUs: []ServerGPU{{NUMANode: -1}}}
			tc.spoil(&f, &s)
			f.readBoard(r, &s)
			if len(r.errs) != 1 || !strings.HasPrefix(r.errs[0].Error(), "server x: "+tc.want) {
				t.Errorf("got %v, want %q", r.errs, tc.want)
			}
		})
	}
}
