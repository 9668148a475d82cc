package sysfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/sysfs"
)

func node(name string, minor int64) hardware.DeviceNode {
	return hardware.DeviceNode{Path: "/dev/infiniband/" + name, Major: 231, Minor: minor}
}

// completeA is what threeNICs has at pathA.
func completeA() hardware.NIC {
	zero := 0
	return hardware.NIC{
		PCI: "0000:0a:00.0", Interface: "ib0",
		RDMA: []hardware.RDMADevice{{
			Name: "mlx5_0", NodeGUID: "0c42:a103:00c6:cf52",
			FirmwareVersion: "28.39.3004", BoardID: "MT_0000000838", HCAType: "MT4129",
			Ports: []hardware.RDMAPort{{
				Number: 1, LinkLayer: "InfiniBand", State: "ACTIVE", PhysicalState: "LinkUp",
				BitsPerSecond: 400e9, GUID: "0c42:a103:00c6:cf53", HasSubnetManager: true,
			}},
			Verbs:      node("uverbs0", 192),
			Management: []hardware.DeviceNode{node("umad0", 0)},
			Subnet:     []hardware.DeviceNode{node("issm0", 64)},
		}},
		PCIeRoot: "pci0000:07", NUMANode: &zero,
		Bridges: []hardware.PCIAddress{"0000:07:01.0", "0000:08:00.0", "0000:09:00.0"},
	}
}

func TestNICs(t *testing.T) {
	m := threeNICs(t)
	got := m.read()
	if diff := cmp.Diff(completeA(), got[0]); diff != "" {
		t.Errorf("first NIC (-want +got):\n%s", diff)
	}
	want := map[hardware.PCIAddress]string{"0000:0a:00.0": "mlx5_0", "0000:18:00.0": "mlx5_1", "0000:49:00.0": "mlx5_2"}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
	for i, path := range []string{pathA, pathB, pathC} {
		m.rest("devices/"+path, fmt.Sprintf("mlx5_%d", i), fmt.Sprintf("ib%d", i))
	}
	if diff := cmp.Diff(got, m.read()); diff != "" {
		t.Errorf("with all that the kernel shows (-before +after):\n%s", diff)
	}
	cm, err := sysfs.New(m.root).ConnectionManager()
	if !errors.Is(err, hardware.ErrNotFound) {
		t.Errorf("connection manager without its module: %v, %v", cm, err)
	}
	m.write("class/misc/rdma_cm", map[string]string{"dev": "10:122", "abi_version": "4"})
	cm, err = sysfs.New(m.root).ConnectionManager()
	if want := (hardware.DeviceNode{Path: "/dev/infiniband/rdma_cm", Major: 10, Minor: 122}); err != nil || cm != want {
		t.Errorf("connection manager: got %v, %v; want %v", cm, err, want)
	}
}

func TestNICsWithoutAny(t *testing.T) {
	for name, root := range map[string]string{"SYSF-02 no PCI at all": t.TempDir(), "no RDMA": newMachine(t).root} {
		t.Run(name, func(t *testing.T) {
			if nics, notes, err := sysfs.New(root).NICs(t.Context()); err != nil || len(nics)+len(notes) > 0 {
				t.Errorf("got %v, %v, %v", nics, notes, err)
			}
		})
	}
}

func TestNICsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := sysfs.New(threeNICs(t).root).NICs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Whatever is wrong with one NIC, its neighbours are there with their own values, and
// it is there itself once it is whole again (DISC-04).
func TestNICsBroken(t *testing.T) {
	const f, rdma, port = "devices/" + pathB, "devices/" + pathB + "/infiniband/mlx5_1", "devices/" + pathB + "/infiniband/mlx5_1/ports/1"
	tests := map[string]struct {
		spoil   string // a file or directory that is removed
		files   map[string]string
		reasons []string // none: no NIC, and nothing to say
	}{
		"RDMA-10 no driver":                   {spoil: f + "/infiniband"},
		"empty directory":                     {spoil: rdma},
		"SYSF-02 dangling link":               {spoil: f, reasons: []string{"node uverbs1: open", "node issm1: open", "node umad1: open"}},
		"no ports":                            {spoil: rdma + "/ports", reasons: []string{"read RDMA device mlx5_1: no ports"}},
		"no state":                            {spoil: port + "/state", reasons: []string{"port 1: open"}},
		"no link layer":                       {spoil: port + "/link_layer", reasons: []string{"port 1: open"}},
		"no rate":                             {spoil: port + "/rate", reasons: []string{"port 1: open"}},
		"empty state":                         {spoil: "none", files: map[string]string{port + "/state": ""}, reasons: []string{"state is empty"}},
		"odd rate":                            {spoil: "none", files: map[string]string{port + "/rate": "much"}, reasons: []string{`rate is "much"`}},
		"no subnet manager file":              {spoil: port + "/sm_lid", reasons: []string{"sm_lid"}},
		"odd subnet manager":                  {spoil: "none", files: map[string]string{port + "/sm_lid": "-1"}, reasons: []string{"sm_lid"}},
		"no verbs node yet":                   {spoil: "class/infiniband_verbs/uverbs1", reasons: []string{"RDMA device mlx5_1 has no verbs node"}},
		"ports that are a file":               {spoil: rdma + "/ports", files: map[string]string{rdma + "/ports": "x"}, reasons: []string{"read RDMA device mlx5_1"}},
		"a file in place of RDMA devices":     {spoil: f + "/infiniband", files: map[string]string{f + "/infiniband": "x"}, reasons: []string{"leave out NIC 0000:18:00.0"}},
		"a file in place of its interfaces":   {spoil: f + "/net", files: map[string]string{f + "/net": "x"}, reasons: []string{"list its network interfaces"}},
		"a file for its physical function":    {spoil: "none", files: map[string]string{f + "/physfn": "x"}, reasons: []string{"find its physical function"}},
		"a file in place of an RDMA device":   {spoil: rdma, files: map[string]string{rdma: "x"}, reasons: []string{"read RDMA device mlx5_1"}},
		"a file for what an interface is of":  {spoil: "none", files: map[string]string{f + "/net/ib1/master": "x"}, reasons: []string{"what its interface ib1 is part of"}},
		"a second RDMA device that is broken": {spoil: "none", files: map[string]string{f + "/infiniband/smi1/node_guid": ""}, reasons: []string{"read RDMA device smi1: no ports"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := threeNICs(t)
			before := m.read()
			m.remove(tc.spoil)
			m.write("", tc.files)
			if diff := cmp.Diff([]hardware.NIC{before[0], before[2]}, m.read(tc.reasons...)); diff != "" {
				t.Errorf("neighbours (-want +got):\n%s", diff)
			}
			m.remove("bus/pci/devices/0000:18:00.0")
			for _, dir := range []string{f, "class/infiniband/mlx5_1", "class/infiniband_verbs/uverbs1", "class/infiniband_mad/umad1", "class/infiniband_mad/issm1", "class/net/ib1"} {
				m.remove(dir)
			}
			m.infiniBand(pathB, 1)
			if diff := cmp.Diff(before, m.read()); diff != "" {
				t.Errorf("whole again (-want +got):\n%s", diff)
			}
		})
	}
}

// What a NIC can do without is left out, and never taken from a neighbour (DISC-04).
func TestNICsUnknown(t *testing.T) {
	const f, rdma = "devices/" + pathA, "devices/" + pathA + "/infiniband/mlx5_0"
	tests := map[string]struct {
		remove  string
		files   map[string]string
		change  func(n *hardware.NIC)
		reasons []string
	}{
		"RDMA-08 interface in a pod": {remove: f + "/net", change: func(n *hardware.NIC) { n.Interface = "" }},
		"SYSF-01 NUMA node -1":       {files: map[string]string{f + "/numa_node": "-1"}, change: func(n *hardware.NIC) { n.NUMANode = nil }},
		"SYSF-01 odd NUMA node": {files: map[string]string{f + "/numa_node": "x"}, change: func(n *hardware.NIC) { n.NUMANode = nil },
			reasons: []string{"NIC 0000:0a:00.0 is without its NUMA node"}},
		"no firmware version":  {remove: rdma + "/fw_ver", change: func(n *hardware.NIC) { n.RDMA[0].FirmwareVersion = "" }},
		"no board":             {remove: rdma + "/board_id", change: func(n *hardware.NIC) { n.RDMA[0].BoardID = "" }},
		"no type":              {remove: rdma + "/hca_type", change: func(n *hardware.NIC) { n.RDMA[0].HCAType = "" }},
		"no GUID":              {remove: rdma + "/node_guid", change: func(n *hardware.NIC) { n.RDMA[0].NodeGUID = "" }},
		"GUID not set":         {files: map[string]string{rdma + "/node_guid": "0000:0000:0000:0000"}, change: func(n *hardware.NIC) { n.RDMA[0].NodeGUID = "" }},
		"no GID":               {remove: rdma + "/ports/1/gids", change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].GUID = "" }},
		"GID not set":          {files: map[string]string{rdma + "/ports/1/gids/0": "0000:0000:0000:0000:0000:0000:0000:0000"}, change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].GUID = "" }},
		"odd GID":              {files: map[string]string{rdma + "/ports/1/gids/0": "fe80::1"}, change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].GUID = "" }},
		"no subnet manager":    {files: map[string]string{rdma + "/ports/1/sm_lid": "0x0"}, change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].HasSubnetManager = false }},
		"port down":            {files: map[string]string{rdma + "/ports/1/state": "1: DOWN", rdma + "/ports/1/phys_state": "3: Disabled"}, change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].State, n.RDMA[0].Ports[0].PhysicalState = "DOWN", "Disabled" }},
		"slow port":            {files: map[string]string{rdma + "/ports/1/rate": "2.5 Gb/sec (1X SDR)"}, change: func(n *hardware.NIC) { n.RDMA[0].Ports[0].BitsPerSecond = 2.5e9 }},
		"no management node":   {remove: "class/infiniband_mad/umad0", change: func(n *hardware.NIC) { n.RDMA[0].Management = nil }},
		"no management at all": {remove: "class/infiniband_mad", change: func(n *hardware.NIC) { n.RDMA[0].Management, n.RDMA[0].Subnet = nil, nil }},
		"odd device number":    {files: map[string]string{"class/infiniband_mad/umad0/dev": "231"}, change: func(n *hardware.NIC) { n.RDMA[0].Management = nil }, reasons: []string{"node umad0: read device number"}},
		"node of an odd port":  {files: map[string]string{"class/infiniband_mad/issm0/port": "x"}, change: func(n *hardware.NIC) { n.RDMA[0].Subnet = nil }, reasons: []string{"node issm0: port"}},
		"dangling node":        {remove: f + "/infiniband_mad/issm0", change: func(n *hardware.NIC) { n.RDMA[0].Subnet = nil }, reasons: []string{"node issm0: open"}},
		"renamed interface":    {files: map[string]string{f + "/net/ibp10s0/dev_port": "0"}, remove: f + "/net/ib0", change: func(n *hardware.NIC) { n.Interface = "ibp10s0" }},
		"second interface":     {files: map[string]string{f + "/net/a0/dev_port": "1"}, change: func(*hardware.NIC) {}},
		"representor":          {files: map[string]string{f + "/net/a0/dev_port": "0", f + "/net/a0/phys_port_name": "pf0vf1"}, change: func(*hardware.NIC) {}},
		"name of its own port": {files: map[string]string{f + "/net/ib0/phys_port_name": "p0"}, change: func(*hardware.NIC) {}},
		"neither kind of a port": {files: map[string]string{rdma + "/ports/1/link_layer": "Unspecified"}, change: func(n *hardware.NIC) {
			p := &n.RDMA[0].Ports[0]
			p.LinkLayer, p.HasSubnetManager = "Unspecified", false
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := threeNICs(t)
			if tc.remove != "" {
				m.remove(tc.remove)
			}
			m.write("", tc.files)
			want := completeA()
			tc.change(&want)
			got := m.read(tc.reasons...)
			if diff := cmp.Diff(want, got[0]); diff != "" || len(got) != 3 {
				t.Errorf("%d NICs, the first (-want +got):\n%s", len(got), diff)
			}
		})
	}
}

// A function whose link leads to an odd place is a NIC without a place (SYSF-02).
func TestNICsSYSF02(t *testing.T) {
	m := newMachine(t)
	m.infiniBand("LNXSYSTM:00/VMBUS:01/0000:0a:00.0", 0)
	f := m.infiniBand(pathB, 1)
	m.remove("bus/pci/devices/0000:18:00.0")
	must(t, os.Symlink(filepath.Join(m.root, f), filepath.Join(m.root, "bus/pci/devices/0000:18:00.0")))
	got := m.read("NIC 0000:18:00.0 is without its PCIe root")
	if len(got) != 2 || got[0].PCIeRoot != "" || got[0].Bridges != nil || got[1].Bridges != nil || got[1].RDMA[0].Name != "mlx5_1" {
		t.Errorf("got %+v", got)
	}
}

// A card for XDR has a device for traffic and one that manages four planes (kernel:
// "RDMA/mlx5: Support plane device and driver APIs to add and delete it").
func TestNICsXDR(t *testing.T) {
	m := newMachine(t)
	f := m.function(pathA)
	// The name sorts before that of the other.
	smi, xdr := m.rdma(f, "amlx5_smi1"), m.rdma(f, "mlx5_0")
	for port := 2; port <= 4; port++ {
		m.port(smi, port)
	}
	for port := 1; port <= 4; port++ {
		// Nodes in another order than ports.
		m.node(f, "umad"+string(rune('5'-port)), "amlx5_smi1", port, port)
		m.node(f, "issm"+string(rune('5'-port)), "amlx5_smi1", port, 64+port)
	}
	m.write(xdr, map[string]string{"ports/1/rate": "800 Gb/sec (4X XDR)"})
	m.node(f, "umad0", "mlx5_0", 1, 0)
	m.node(f, "uverbs0", "mlx5_0", 0, 192)
	got := m.read()
	if len(got) != 1 || len(got[0].RDMA) != 2 {
		t.Fatalf("got %+v", got)
	}
	traffic, management := got[0].RDMA[0], got[0].RDMA[1]
	if traffic.Name != "mlx5_0" || traffic.Verbs != node("uverbs0", 192) || traffic.Ports[0].BitsPerSecond != 800e9 || len(traffic.Management) != 1 || traffic.Subnet != nil {
		t.Errorf("first device: %+v", traffic)
	}
	want := []hardware.DeviceNode{node("umad4", 1), node("umad3", 2), node("umad2", 3), node("umad1", 4)}
	if diff := cmp.Diff(want, management.Management); diff != "" || management.Verbs.Path != "" || len(management.Subnet) != 4 || len(management.Ports) != 4 {
		t.Errorf("second device: %+v (-want +got):\n%s", management, diff)
	}
	m.remove("class/infiniband_verbs")
	if got := m.read("mlx5_0 has no verbs node"); len(got) > 0 {
		t.Errorf("a NIC without verbs: %+v", got)
	}
}

func TestNICsVirtual(t *testing.T) {
	m := newMachine(t)
	pf := m.infiniBand(pathA, 0)
	m.write(pf, map[string]string{"sriov_totalvfs": "16", "sriov_numvfs": "2"})
	path := filepath.Dir(pathA)
	vf := m.infiniBand(path+"/0000:0a:00.1", 1)
	m.ethernet(vf + "/infiniband/mlx5_1/ports/1")
	bare := m.function(path + "/0000:0a:00.2")
	for i, f := range []string{vf, bare} {
		m.link(pf, f+"/physfn")
		m.link(f, pf+"/virtfn"+string(rune('0'+i)))
	}
	got := m.read()
	want := map[hardware.PCIAddress]string{"0000:0a:00.0": "mlx5_0", "0000:0a:00.1": "mlx5_1"}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Fatalf("RDMA-10: NICs (-want +got):\n%s", diff)
	}
	if got[0].Parent != "" || got[1].Parent != "0000:0a:00.0" {
		t.Errorf("parents %q and %q", got[0].Parent, got[1].Parent)
	}
	port := hardware.RDMAPort{Number: 1, LinkLayer: "Ethernet", State: "ACTIVE", PhysicalState: "LinkUp", BitsPerSecond: 100e9, GUID: "0e42:a1ff:fec6:cf53"}
	if diff := cmp.Diff(port, got[1].RDMA[0].Ports[0]); diff != "" {
		t.Errorf("Ethernet port (-want +got):\n%s", diff)
	}
}

func TestExclusiveRDMA(t *testing.T) {
	tests := map[string]struct {
		mode      string
		exclusive bool
		wantErr   bool
	}{
		"shared": {mode: "Y"}, "exclusive": {mode: "N", exclusive: true}, "no RDMA": {}, "odd": {mode: "maybe", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if tc.mode != "" {
				m.write("module/ib_core/parameters", map[string]string{"netns_mode": tc.mode})
			}
			got, err := sysfs.New(m.root).ExclusiveRDMA()
			if got != tc.exclusive || (err != nil) != tc.wantErr {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// BenchmarkNICs reads a machine with ten NICs among 400 other functions, as large
// servers have.
func BenchmarkNICs(b *testing.B) {
	m := newMachine(b)
	for i := range 400 {
		m.function(fmt.Sprintf("pci0000:%02x/0000:%02x:%02x.0", 0xa0+i/32, 0xa0+i/32, i%32))
	}
	for i := range 10 {
		m.infiniBand(fmt.Sprintf("pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", 0x10*i, 0x10*i, 0x10*i+1), i)
	}
	m.routes("eno1")
	b.ReportAllocs()
	for b.Loop() {
		if nics := m.read(); len(nics) != 10 {
			b.Fatalf("%d NICs", len(nics))
		}
	}
}
