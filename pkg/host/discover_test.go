package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
)

// kernel is a topology in which nothing is known, but for the NICs.
type kernel struct {
	nics         []hardware.NIC
	reasons      []error
	nicsErr      error
	exclusive    bool
	exclusiveErr error
	// place is where all GPUs sit, unreadable the error that it gives instead.
	place      hardware.Place
	unreadable error
}

func (k *kernel) PCIeRoot(hardware.PCIAddress) (string, error) {
	return k.place.PCIeRoot, k.unreadable
}

func (k *kernel) NUMANodes(hardware.PCIAddress) (*int, []int, error) {
	return k.place.NUMANode, k.place.NUMANear, k.unreadable
}

func (k *kernel) Bridges(hardware.PCIAddress) ([]hardware.PCIAddress, error) {
	return k.place.Bridges, k.unreadable
}

func (k *kernel) NICs(ctx context.Context) ([]hardware.NIC, []error, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return k.nics, k.reasons, k.nicsErr
}

func (k *kernel) ExclusiveRDMA() (bool, error) { return k.exclusive, k.exclusiveErr }

func (k *kernel) ConnectionManager() (hardware.DeviceNode, error) {
	return hardware.DeviceNode{Path: "/dev/infiniband/rdma_cm", Major: 10, Minor: 120}, nil
}

func TestDiscoverGPUs(t *testing.T) {
	one := 1
	tests := map[string]struct {
		kernel kernel
		want   hardware.Place
	}{
		"known": {
			kernel: kernel{place: hardware.Place{PCIeRoot: "pci0000:15", NUMANode: &one, NUMANear: []int{0, 2}, Bridges: []hardware.PCIAddress{"0000:15:01.0"}}},
			want:   hardware.Place{PCIeRoot: "pci0000:15", NUMANode: &one, NUMANear: []int{0, 2}, Bridges: []hardware.PCIAddress{"0000:15:01.0"}}},
		"unknown":    {},
		"unreadable": {kernel: kernel{unreadable: errors.New("unreadable")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			h := host.New(f.driver, &tc.kernel, t.TempDir())
			node, skipped, err := h.Discover(t.Context())
			if err != nil || len(skipped) > 0 || len(node.GPUs) != 2 {
				t.Fatalf("got %+v, %v, %v", node, skipped, err)
			}
			for _, g := range node.GPUs {
				want := tc.want
				want.PCI = g.PCI
				if diff := cmp.Diff(want, g.Place()); diff != "" {
					t.Errorf("place of %s (-want +got):\n%s", g.PCI, diff)
				}
			}
		})
	}
}

func TestDiscoverNICs(t *testing.T) {
	nics := []hardware.NIC{{PCI: "0000:5e:00.0"}, {PCI: "0000:18:00.0", Interface: "eth0", Uplink: true}, {PCI: "0000:0a:00.0"}}
	broken := errors.New("leave out NIC 0000:0b:00.0")
	tests := map[string]struct {
		kernel  kernel
		filter  func(context.Context, hardware.NIC) (bool, error)
		want    []hardware.PCIAddress
		reasons []string
	}{
		"none": {},
		"in order, without the uplink (RDMA-06)": {kernel: kernel{nics: nics}, want: []hardware.PCIAddress{"0000:0a:00.0", "0000:5e:00.0"},
			reasons: []string{`leave out NIC 0000:18:00.0: it carries the host's default route (interface "eth0")`}},
		"one is broken": {kernel: kernel{nics: nics[:1], reasons: []error{broken}}, want: []hardware.PCIAddress{"0000:5e:00.0"},
			reasons: []string{"0000:0b:00.0"}},
		"a filter decides alone (RDMA-06)": {kernel: kernel{nics: nics}, filter: func(_ context.Context, n hardware.NIC) (bool, error) { return n.PCI != "0000:5e:00.0", nil },
			want: []hardware.PCIAddress{"0000:0a:00.0", "0000:18:00.0"}},
		"a filter that takes none": {kernel: kernel{nics: nics}, filter: func(context.Context, hardware.NIC) (bool, error) { return false, nil }},
		"a filter that fails": {kernel: kernel{nics: nics[:1]}, filter: func(context.Context, hardware.NIC) (bool, error) { return true, errors.New("no such key: rail") },
			reasons: []string{"leave out NIC 0000:5e:00.0: no such key: rail"}},
		"unreadable as a whole":  {kernel: kernel{nicsErr: errors.New("no sysfs")}, reasons: []string{"discover NICs: no sysfs"}},
		"exclusive":              {kernel: kernel{nics: nics, reasons: []error{broken}, exclusive: true}, reasons: []string{"exclusive mode"}},
		"exclusive, all broken":  {kernel: kernel{reasons: []error{broken}, exclusive: true}, reasons: []string{"exclusive mode"}},
		"exclusive without NICs": {kernel: kernel{exclusive: true}},
		"mode unreadable":        {kernel: kernel{nics: nics, exclusiveErr: errors.New("odd mode")}, reasons: []string{"discover NICs: odd mode"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			h := host.New(f.driver, &tc.kernel, t.TempDir())
			h.NICFilter = tc.filter
			node, skipped, err := h.Discover(t.Context())
			if err != nil || len(node.GPUs) != 2 {
				t.Fatalf("GPUs: got %+v, %v", node.GPUs, err)
			}
			var got []hardware.PCIAddress
			for _, n := range node.NICs {
				got = append(got, n.PCI)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			if len(skipped) != len(tc.reasons) {
				t.Fatalf("reasons %q, want %q", skipped, tc.reasons)
			}
			for i, want := range tc.reasons {
				if !strings.Contains(skipped[i].Error(), want) {
					t.Errorf("reason %q, want %q", skipped[i], want)
				}
			}
		})
	}
}

// A discovery that is broken off must not pass for a node that has lost its NICs.
func TestDiscoverCanceled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := host.New(&cancelsAfter{Driver: f.driver, cancel: cancel}, &kernel{nics: []hardware.NIC{{PCI: "0000:5e:00.0"}}}, t.TempDir())
	if node, _, err := h.Discover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", node, err)
	}
}

// cancelsAfter cancels once the GPUs have been read.
type cancelsAfter struct {
	host.Driver
	cancel context.CancelFunc
}

func (c *cancelsAfter) Node(ctx context.Context) (hardware.Node, []error, error) {
	node, skipped, err := c.Driver.Node(ctx)
	c.cancel()
	return node, skipped, err
}
