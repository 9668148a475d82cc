package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
)

// kernel is a topology in which nothing is known, but for the NICs.
type kernel struct {
	nics         []hardware.NIC
	reads        int // of the NICs
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
	k.reads++
	return k.nics, k.reasons, k.nicsErr
}

func (k *kernel) ExclusiveRDMA() (bool, error) { return k.exclusive, k.exclusiveErr }

func (k *kernel) ConnectionManager() (hardware.DeviceNode, error) {
	return hardware.DeviceNode{Path: "/dev/infiniband/rdma_cm", Major: 10, Minor: 120}, nil
}

func (k *kernel) Uevents(context.Context, func(string)) error { return nil }

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
