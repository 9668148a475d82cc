package host_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/plan"
)

func TestNICs(t *testing.T) {
	nics := []hardware.NIC{{PCI: "0000:0a:00.0"}, {PCI: "0000:18:00.0", Interface: "eth0", Uplink: true}}
	broken := errors.New("leave out NIC 0000:0b:00.0")
	tests := map[string]struct {
		kernel  kernel
		want    []hardware.NIC
		reasons []string
		wantErr string
	}{
		"none":                   {},
		"all":                    {kernel: kernel{nics: nics}, want: nics},
		"one is broken":          {kernel: kernel{nics: nics[:1], reasons: []error{broken}}, want: nics[:1], reasons: []string{"0000:0b:00.0"}},
		"unreadable as a whole":  {kernel: kernel{nicsErr: errors.New("no sysfs")}, wantErr: "no sysfs"},
		"exclusive":              {kernel: kernel{nics: nics, reasons: []error{broken}, exclusive: true}, reasons: []string{"exclusive mode"}},
		"exclusive, all broken":  {kernel: kernel{reasons: []error{broken}, exclusive: true}, reasons: []string{"exclusive mode"}},
		"exclusive without NICs": {kernel: kernel{exclusive: true}},
		"mode unreadable":        {kernel: kernel{nics: nics, exclusiveErr: errors.New("odd mode")}, wantErr: "odd mode"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			got, reasons, err := host.New(f.driver, &tc.kernel, t.TempDir()).NICs(t.Context())
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			if len(reasons) != len(tc.reasons) {
				t.Fatalf("reasons %q, want %q", reasons, tc.reasons)
			}
			for i, want := range tc.reasons {
				if !strings.Contains(reasons[i].Error(), want) {
					t.Errorf("reason %q, want %q", reasons[i], want)
				}
			}
		})
	}
}

// rdma is a NIC with one port and all nodes that there are.
func rdma(i int, layer string) hardware.NIC {
	node := func(kind string) hardware.DeviceNode {
		return hardware.DeviceNode{Path: fmt.Sprintf("/dev/infiniband/%s%d", kind, i)}
	}
	return hardware.NIC{PCI: hardware.PCIAddress(fmt.Sprintf("0000:0%d:00.0", i)), RDMA: []hardware.RDMADevice{{
		Ports: []hardware.RDMAPort{{Number: 1, LinkLayer: layer}},
		Verbs: node("uverbs"), Management: []hardware.DeviceNode{node("umad")}, Subnet: []hardware.DeviceNode{node("issm")},
	}}}
}

// TestDeviceNodes: each device has its own nodes, and however many NICs a claim has,
// they are read once.
func TestDeviceNodes(t *testing.T) {
	f := newFixture(t)
	xdr := rdma(2, hardware.LinkLayerInfiniBand)
	xdr.RDMA = append(xdr.RDMA, hardware.RDMADevice{Ports: xdr.RDMA[0].Ports, Subnet: []hardware.DeviceNode{{Path: "/dev/infiniband/issm9"}}})
	nics := []hardware.NIC{rdma(1, hardware.LinkLayerInfiniBand), xdr, rdma(3, hardware.LinkLayerEthernet)}
	gpu, pair := plan.Device{Name: "gpu", GPU: f.gpu.ID()}, plan.Device{Name: "pair", GPU: f.gpu.ID(), NIC: &plan.NIC{PCI: nics[0].PCI}}
	alone := func(i int, issm bool) plan.Device {
		return plan.Device{Name: fmt.Sprintf("nic-%d", i), NIC: &plan.NIC{PCI: hardware.PCIAddress(fmt.Sprintf("0000:0%d:00.0", i)), ISSM: issm}}
	}
	tests := map[string]struct {
		devices []plan.Device
		want    []string
		reads   int
		wantErr string
	}{
		"GPUs only": {devices: []plan.Device{gpu}, want: []string{"nvidia0"}},
		"all kinds": {devices: []plan.Device{gpu, alone(1, false), alone(2, true), alone(3, false)}, reads: 1,
			want: []string{"nvidia0", "infiniband/uverbs1 infiniband/umad1 infiniband/rdma_cm",
				"infiniband/uverbs2 infiniband/umad2 infiniband/issm2 infiniband/issm9 infiniband/rdma_cm", "infiniband/uverbs3 infiniband/rdma_cm"}},
		"a pair":           {devices: []plan.Device{pair}, reads: 1, want: []string{"nvidia0 infiniband/uverbs1 infiniband/umad1 infiniband/rdma_cm"}},
		"one that is gone": {devices: []plan.Device{alone(1, false), alone(7, false)}, reads: 1, wantErr: "device nic-7: find NIC 0000:07:00.0: not found"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := &kernel{nics: nics}
			nodes, err := host.New(f.driver, k, t.TempDir()).DeviceNodes(t.Context(), plan.Plan{Devices: tc.devices}, nil)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			var got []string
			for _, of := range nodes {
				var paths []string
				for _, n := range of {
					paths = append(paths, strings.TrimPrefix(n.Path, "/dev/"))
				}
				got = append(got, strings.Join(paths, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if k.reads != tc.reads {
				t.Errorf("the NICs were read %d times, want %d", k.reads, tc.reads)
			}
		})
	}
}
