package sysfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/sysfs"
)

// What carries the host's own traffic is told apart, and what is a part of a bond or
// a bridge is no NIC (RDMA-06).
func TestNICsRDMA06(t *testing.T) {
	tests := map[string]struct {
		build   func(m *machine)
		uplinks []hardware.PCIAddress
		missing []hardware.PCIAddress
		reasons []string
	}{
		"a route over something else": {build: func(m *machine) { m.routes("eno1") }},
		"no routes":                   {build: func(*machine) {}},
		"two default routes":          {build: func(m *machine) { m.routes("ib2", "ib0") }, uplinks: []hardware.PCIAddress{"0000:0a:00.0", "0000:49:00.0"}},
		"an interface that is gone":   {build: func(m *machine) { m.routes("gone") }},
		"a VLAN":                      {build: func(m *machine) { m.over("ib1.5", "ib1", false); m.routes("ib1.5") }, uplinks: []hardware.PCIAddress{"0000:18:00.0"}},
		"a bridge over a VLAN": {build: func(m *machine) {
			m.over("ib1.5", "ib1", false)
			m.over("br0", "ib1.5", true)
			m.routes("br0")
		}, uplinks: []hardware.PCIAddress{"0000:18:00.0"}},
		"a bond": {build: func(m *machine) {
			m.over("bond0", "ib0", true)
			m.over("bond0", "ib2", true)
		}, missing: []hardware.PCIAddress{"0000:0a:00.0", "0000:49:00.0"},
			reasons: []string{"leave out NIC 0000:0a:00.0: its interface ib0 is part of bond0", "leave out NIC 0000:49:00.0"}},
		"a virtual function with the route": {build: func(m *machine) {
			vf := m.infiniBand("pci0000:48/0000:48:01.0/0000:49:00.1", 3)
			m.link("devices/"+pathC, vf+"/physfn")
			m.routes("ib3")
		}, uplinks: []hardware.PCIAddress{"0000:49:00.0", "0000:49:00.1"}},
		"a physical function with the route": {build: func(m *machine) {
			vf := m.infiniBand("pci0000:48/0000:48:01.0/0000:49:00.1", 3)
			m.link("devices/"+pathC, vf+"/physfn")
			m.routes("ib2")
		}, uplinks: []hardware.PCIAddress{"0000:49:00.0"}},
		"a virtual function in a bridge": {build: func(m *machine) {
			vf := m.infiniBand("pci0000:48/0000:48:01.0/0000:49:00.1", 3)
			m.link("devices/"+pathC, vf+"/physfn")
			m.over("br0", "ib3", true)
		}, missing: []hardware.PCIAddress{"0000:49:00.0", "0000:49:00.1"},
			reasons: []string{"0000:49:00.0: virtual function 0000:49:00.1: its interface ib3 is part of br0", "0000:49:00.1: its interface ib3"}},
		"a representor in a bridge": {build: func(m *machine) {
			rep := m.netdev("devices/"+pathC, "rep0")
			m.write(rep, map[string]string{"phys_port_name": "pf0vf0"})
			m.over("br0", "rep0", true)
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := threeNICs(t)
			want := map[hardware.PCIAddress]bool{}
			tc.build(m)
			for _, path := range []string{"0000:0a:00.0", "0000:18:00.0", "0000:49:00.0", "0000:49:00.1"} {
				if _, err := os.Stat(filepath.Join(m.root, "bus/pci/devices", path)); err == nil {
					want[hardware.PCIAddress(path)] = false
				}
			}
			for _, addr := range tc.uplinks {
				want[addr] = true
			}
			for _, addr := range tc.missing {
				delete(want, addr)
			}
			got := map[hardware.PCIAddress]bool{}
			for _, n := range m.read(tc.reasons...) {
				got[n.PCI] = n.Uplink
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("NICs and whether they are uplinks (-want +got):\n%s", diff)
			}
		})
	}
}

// Without knowing the host's routes no NIC is offered: it might be the node's own.
func TestNICsWithoutRoutes(t *testing.T) {
	m := threeNICs(t)
	must(t, os.MkdirAll(filepath.Join(m.proc, "1/net/route"), 0o755))
	if nics, _, err := sysfs.New(m.root).WithProc(m.proc).NICs(t.Context()); err == nil {
		t.Errorf("got %d NICs", len(nics))
	}
	if nics, _, err := sysfs.New(m.root).NICs(t.Context()); err != nil || len(nics) != 3 {
		t.Errorf("without a procfs: got %d NICs, %v", len(nics), err)
	}
}

func TestDefaultRouteInterfaces(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const zero = "00000000000000000000000000000000"
	tests := map[string]struct {
		v4, v6 string
		want   []string
	}{
		"no files": {},
		"one":      {v4: head + "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", want: []string{"eth0"}},
		"several, twice the same": {v4: head + "eth1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\neth0\t00000000\t010200C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\neth1\t00000000\t010200C0\t0003\t0\t0\t300\t00000000\t0\t0\t0\n",
			want: []string{"eth0", "eth1"}},
		"networks only":         {v4: head + "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"},
		"half of all addresses": {v4: head + "tun0\t00000000\t010200C0\t0003\t0\t0\t0\t00000080\t0\t0\t0\n"},
		"a route that refuses":  {v4: head + "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n"},
		"cut off":               {v4: head + "eth0\t00000000\n"},
		"IPv6": {v6: zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth6\n" +
			"20010db8000000000000000000000000 20 " + zero + " 00 " + zero + " 00000100 00000001 00000000 00000001     eth7\n" +
			zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200       lo\n", want: []string{"eth6"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(proc, "1/net"), 0o755))
			for file, content := range map[string]string{"route": tc.v4, "ipv6_route": tc.v6} {
				if content != "" {
					must(t, os.WriteFile(filepath.Join(proc, "1/net", file), []byte(content), 0o644))
				}
			}
			got, err := sysfs.DefaultRouteInterfaces(proc)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
