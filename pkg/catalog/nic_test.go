package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

func TestNICModels(t *testing.T) {
	for _, name := range NICModels() {
		m, _, err := LoadNICModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.PCI.Vendor != 0x15b3 || m.GigabitsPerSecond < 100 || m.VirtualDevice == m.PCI.Device {
			t.Errorf("%s: %+v", name, m)
		}
		if infiniband := m.PCI.Class == 0x020700; infiniband != (m.LinkLayer == hardware.LinkLayerInfiniBand) {
			t.Errorf("%s: class %06x with link layer %s", name, m.PCI.Class, m.LinkLayer)
		}
	}
	if _, _, err := LoadNICModel("token-ring"); err == nil || !strings.Contains(err.Error(), `nic "token-ring" is not in the catalog: known are connectx-6-dx`) {
		t.Errorf("unknown card: %v", err)
	}
}

// TestNICsOfServers has what distinguishes the servers' NICs: per function address,
// RDMA devices, interface, and the GPUs below the same switch, by index.
func TestNICsOfServers(t *testing.T) {
	want := map[string][]string{
		"dgx-a100": {
			"0000:0c:00.0 mlx5_0 ibp12s0 [0 1] 200 InfiniBand", "0000:12:00.0 mlx5_1 ibp18s0 [0 1] 200 InfiniBand",
			"0000:4b:00.0 mlx5_2 ibp75s0 [2 3] 200 InfiniBand", "0000:54:00.0 mlx5_3 ibp84s0 [2 3] 200 InfiniBand",
			"0000:61:00.0 mlx5_4 enp97s0f0np0 [] 200 Ethernet",
			"0000:8d:00.0 mlx5_5 ibp141s0 [4 5] 200 InfiniBand", "0000:94:00.0 mlx5_6 ibp148s0 [4 5] 200 InfiniBand",
			"0000:ba:00.0 mlx5_7 ibp186s0 [6 7] 200 InfiniBand", "0000:cc:00.0 mlx5_8 ibp204s0 [6 7] 200 InfiniBand",
			"0000:e1:00.0 mlx5_9 enp225s0f0np0 [] 200 Ethernet",
		},
		"dgx-h100": {
			"0000:18:00.0 mlx5_0 ibp24s0 [0] 400 InfiniBand", "0000:29:00.0 mlx5_1 enp41s0f0np0 [] 200 Ethernet",
			"0000:40:00.0 mlx5_2 ibp64s0 [1] 400 InfiniBand", "0000:4f:00.0 mlx5_3 ibp79s0 [2] 400 InfiniBand",
			"0000:5e:00.0 mlx5_4 ibp94s0 [3] 400 InfiniBand", "0000:9a:00.0 mlx5_5 ibp154s0 [4] 400 InfiniBand",
			"0000:aa:00.0 mlx5_6 enp170s0f0np0 [] 200 Ethernet", "0000:c0:00.0 mlx5_7 ibp192s0 [5] 400 InfiniBand",
			"0000:ce:00.0 mlx5_8 ibp206s0 [6] 400 InfiniBand", "0000:dc:00.0 mlx5_9 ibp220s0 [7] 400 InfiniBand",
		},
		"gb200-tray": {
			"0000:03:00.0 mlx5_0 ibp3s0 [] 400 InfiniBand", "0002:03:00.0 mlx5_1 ibP2p3s0 [] 400 InfiniBand",
			"0010:03:00.0 mlx5_2 ibP16p3s0 [] 400 InfiniBand", "0012:03:00.0 mlx5_3 ibP18p3s0 [] 400 InfiniBand",
		},
		"hgx-b200": {
			"0000:18:00.0 mlx5_0 ibp24s0 [0] 400 InfiniBand", "0000:40:00.0 mlx5_1 ibp64s0 [1] 400 InfiniBand",
			"0000:4f:00.0 mlx5_2 ibp79s0 [2] 400 InfiniBand", "0000:5e:00.0 mlx5_3 ibp94s0 [3] 400 InfiniBand",
			"0000:9a:00.0 mlx5_4 ibp154s0 [4] 400 InfiniBand", "0000:c0:00.0 mlx5_5 ibp192s0 [5] 400 InfiniBand",
			"0000:ce:00.0 mlx5_6 ibp206s0 [6] 400 InfiniBand", "0000:dc:00.0 mlx5_7 ibp220s0 [7] 400 InfiniBand",
		},
		"mixed": {"0000:3a:00.0 mlx5_0 ibp58s0 [0] 400 InfiniBand", "0000:87:00.0 mlx5_1 ibp135s0 [] 400 InfiniBand"},
		"roce-vf": {
			"0000:18:00.0 mlx5_0 enp24s0f0np0 [0] 100 Ethernet",
			"0000:18:00.1 mlx5_2 enp24s0f0v0 [0] 100 Ethernet", "0000:18:00.2 mlx5_3 enp24s0f0v1 [0] 100 Ethernet",
			"0000:18:00.3 mlx5_4 enp24s0f0v2 [0] 100 Ethernet", "0000:18:00.4 mlx5_5 enp24s0f0v3 [0] 100 Ethernet",
			"0000:b8:00.0 mlx5_1 enp184s0f0np0 [1] 100 Ethernet",
			"0000:b8:00.1 mlx5_6 enp184s0f0v0 [1] 100 Ethernet", "0000:b8:00.2 mlx5_7 enp184s0f0v1 [1] 100 Ethernet",
			"0000:b8:00.3 mlx5_8 enp184s0f0v2 [1] 100 Ethernet", "0000:b8:00.4 mlx5_9 enp184s0f0v3 [1] 100 Ethernet",
		},
		"xdr": {"0000:18:00.0 mlx5_0,smi1 ibp24s0 [0] 800 InfiniBand"},
	}
	got := map[string][]string{}
	for name, s := range servers(t) {
		for _, n := range s.Node().NICs {
			var devices []string
			for _, d := range n.RDMA {
				devices = append(devices, d.Name)
			}
			var near []int
			for i, g := range s.GPUs {
				if len(g.Bridges) > 1 && len(n.Bridges) > 1 && g.Bridges[1] == n.Bridges[1] {
					near = append(near, i)
				}
			}
			port := n.RDMA[0].Ports[0]
			got[name] = append(got[name], fmt.Sprint(n.PCI, " ", strings.Join(devices, ","), " ", n.Interface, " ", near, " ", port.BitsPerSecond/1e9, " ", port.LinkLayer))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
}

// No GPU of the tray shares a root complex with a NIC, so that alignment by root
// complex never matches there.
func TestCoarseRootsOfGB200(t *testing.T) {
	n := servers(t)["gb200-tray"].Node()
	for _, g := range n.GPUs {
		for _, nic := range n.NICs {
			if g.PCIeRoot == nic.PCIeRoot {
				t.Errorf("%s and %s are both at %s", g.PCI, nic.PCI, g.PCIeRoot)
			}
		}
	}
}

func TestFunctions(t *testing.T) {
	node := func(kind string, n, first int64) hardware.DeviceNode {
		return hardware.DeviceNode{Path: fmt.Sprintf("/dev/infiniband/%s%d", kind, n), Major: 231, Minor: first + n}
	}
	zero, one := 0, 1
	vf := servers(t)["roce-vf"].Node().NICs[6]
	vfGUID, vfPort := vf.RDMA[0].NodeGUID, vf.RDMA[0].Ports[0].GUID
	xdr := servers(t)["xdr"].Node().NICs[0]
	guid := xdr.RDMA[0].NodeGUID
	plane := func(n int) hardware.RDMAPort {
		return hardware.RDMAPort{Number: n, LinkLayer: "InfiniBand", State: "ACTIVE", PhysicalState: "LinkUp", BitsPerSecond: 200e9, GUID: guid, HasSubnetManager: true}
	}
	tests := map[string]struct{ got, want hardware.NIC }{
		"virtual": {vf, hardware.NIC{
			PCI: "0000:b8:00.1", Interface: "enp184s0f0v0", Parent: "0000:b8:00.0", PCIeRoot: "pci0000:b4", NUMANode: &one,
			Bridges: []hardware.PCIAddress{"0000:b4:01.0", "0000:b5:00.0", "0000:b6:18.0"},
			RDMA: []hardware.RDMADevice{{
				Name: "mlx5_6", NodeGUID: vfGUID, FirmwareVersion: "22.32.2004", BoardID: "MT_0000000359", HCAType: "MT4126",
				Ports: []hardware.RDMAPort{{Number: 1, LinkLayer: "Ethernet", State: "ACTIVE", PhysicalState: "LinkUp", BitsPerSecond: 100e9, GUID: vfPort}},
				Verbs: node("uverbs", 6, 192), Management: []hardware.DeviceNode{node("umad", 6, 0)},
			}},
		}},
		"two RDMA devices": {xdr, hardware.NIC{
			PCI: "0000:18:00.0", Interface: "ibp24s0", PCIeRoot: "pci0000:15", NUMANode: &zero,
			Bridges: []hardware.PCIAddress{"0000:15:01.0", "0000:16:00.0", "0000:17:08.0"},
			RDMA: []hardware.RDMADevice{{
				Name: "mlx5_0", NodeGUID: guid, FirmwareVersion: "40.44.1036", BoardID: "MT_0000001222", HCAType: "MT4131",
				Ports: []hardware.RDMAPort{{Number: 1, LinkLayer: "InfiniBand", State: "ACTIVE", PhysicalState: "LinkUp", BitsPerSecond: 800e9, GUID: guid, HasSubnetManager: true}},
				Verbs: node("uverbs", 0, 192), Management: []hardware.DeviceNode{node("umad", 0, 0)},
			}, {
				Name: "smi1", NodeGUID: guid, FirmwareVersion: "40.44.1036", BoardID: "MT_0000001222", HCAType: "MT4131",
				Ports:      []hardware.RDMAPort{plane(1), plane(2), plane(3), plane(4)},
				Management: []hardware.DeviceNode{node("umad", 1, 0), node("umad", 2, 0), node("umad", 3, 0), node("umad", 4, 0)},
				Subnet:     []hardware.DeviceNode{node("issm", 1, 64), node("issm", 2, 64), node("issm", 3, 64), node("issm", 4, 64)},
			}},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if !strings.HasPrefix(vfGUID, "0c42:a103:00") || !strings.HasPrefix(vfPort, "0e42:a1ff:fe") || vfGUID[12:] != vfPort[12:] {
		t.Errorf("GUIDs %s of the node and %s of the port", vfGUID, vfPort)
	}
}

func TestGUIDsAreTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	s := servers(t)["roce-vf"]
	for _, seed := range []string{"a", "b"} {
		for _, n := range s.FreshNICs(seed) {
			if guid := n.RDMA[0].NodeGUID; seen[guid] {
				t.Errorf("%s of seed %s has the GUID %s of another", n.PCI, seed, guid)
			} else {
				seen[guid] = true
			}
		}
	}
	if diff := cmp.Diff(s.FreshNICs("a"), s.FreshNICs("a")); diff != "" {
		t.Errorf("not always the same:\n%s", diff)
	}
}

func TestVFAddress(t *testing.T) {
	for vf, want := range map[int]hardware.PCIAddress{1: "0002:18:00.1", 7: "0002:18:00.7", 8: "0002:18:01.0", 16: "0002:18:02.0"} {
		if got := VFAddress("0002:18:00.0", vf); got != want {
			t.Errorf("VF %d is at %s, want %s", vf, got, want)
		}
	}
}

func TestNICsRefused(t *testing.T) {
	madeUp, far := provenance{Inferred: "made-up"}, 3
	tests := map[string]struct {
		spoil func(*serverFile)
		want  string
	}{
		"no provenance": {func(f *serverFile) { f.NICPlaces = provenance{} }, "nicPlaces: name either a source"},
		"order":         {func(f *serverFile) { f.NICs[1].PCI = "0000:01:00.0" }, "nics[1].pci: must be in ascending order"},
		"address":       {func(f *serverFile) { f.NICs[1].PCI = "9:9" }, `nics[1].pci: PCI address "9:9"`},
		"node":          {func(f *serverFile) { f.NICs[0].NUMANode = &far }, "nics[0].numaNode: numaCPUs has no node 3"},
		"root":          {func(f *serverFile) { f.NICs[0].RootComplex = "pci" }, `nics[0].rootComplex: is "pci", want pciDDDD:BB`},
		"too many VFs":  {func(f *serverFile) { f.NICs[0].VFs = 17 }, "nics[0].vfs: is 17, the card can have 0 to 16"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := newReader("server x", nil)
			if err != nil {
				t.Fatal(err)
			}
			f := serverFile{NICAddresses: madeUp, NICPlaces: madeUp, NICs: []serverNICFile{
				{Model: "connectx-6-dx", PCI: "0000:17:00.0", RootComplex: "pci0000:16"},
				{Model: "connectx-6-dx", PCI: "0000:18:00.0", RootComplex: "pci0000:16"},
			}}
			tc.spoil(&f)
			f.readNICs(r, &Server{NUMACPUs: map[int]string{0: "0-3"}, NodesPerSocket: 1})
			if len(r.errs) == 0 || !strings.HasPrefix(r.errs[0].Error(), "server x: "+tc.want) {
				t.Errorf("got %v, want %q", r.errs, tc.want)
			}
		})
	}
}
