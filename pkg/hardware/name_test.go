package hardware

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// testNode has a GPU that can be partitioned, one that cannot, and one far out.
func testNode() Node {
	plain := mig.Profile{Enum: mig.Profile1Slice, ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 2, Placements: []mig.Placement{{Start: 0, Size: 1}, {Start: 1, Size: 1}}}
	media := plain
	media.Enum, media.ID, media.Name, media.MaxInstances = mig.Profile1SliceRev1, 20, "1g.10gb+me", 1
	can := &MIG{Profiles: []mig.Profile{plain, media}}
	n := Node{GPUs: []GPU{
		{PCI: "10000:e1:00.0", UUID: "GPU-3", MIG: can},
		{PCI: "0000:86:00.0", UUID: "GPU-2"},
		{PCI: "0000:3b:00.0", UUID: "GPU-1", MIG: can},
	}, NICs: []NIC{
		{PCI: "10000:f1:00.0"},
		// At the address of no GPU, and at one that a GPU has as well.
		{PCI: "0000:5e:00.0", RDMA: []RDMADevice{{Name: "mlx5_0"}}},
		{PCI: "0000:86:00.0"},
	}}
	n.Sort()
	return n
}

func TestSort(t *testing.T) {
	var got []PCIAddress
	for _, g := range testNode().GPUs {
		got = append(got, g.PCI)
	}
	if diff := cmp.Diff([]PCIAddress{"0000:3b:00.0", "0000:86:00.0", "10000:e1:00.0"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	got = nil
	for _, n := range testNode().NICs {
		got = append(got, n.PCI)
	}
	if diff := cmp.Diff([]PCIAddress{"0000:5e:00.0", "0000:86:00.0", "10000:f1:00.0"}, got); diff != "" {
		t.Errorf("order of NICs (-want +got):\n%s", diff)
	}
}

func TestDevice(t *testing.T) {
	node := testNode()
	tests := map[string]struct {
		name    string
		gpu     string // UUID, empty: none
		profile string // empty: the whole GPU
		start   int
		nic     PCIAddress // empty: none
	}{
		"whole GPU":                   {name: "gpu-0000-3b-00-0", gpu: "GPU-1"},
		"whole GPU without MIG":       {name: "gpu-0000-86-00-0", gpu: "GPU-2"},
		"MIG slice":                   {name: "gpu-0000-3b-00-0-mig-1g-10gb-1", gpu: "GPU-1", profile: "1g.10gb", start: 1},
		"MIG slice with media":        {name: "gpu-0000-3b-00-0-mig-1g-10gb-plus-me-0", gpu: "GPU-1", profile: "1g.10gb+me"},
		"MIG slice in a large domain": {name: "gpu-10000-e1-00-0-mig-1g-10gb-0", gpu: "GPU-3", profile: "1g.10gb"},
		"NIC":                         {name: "nic-0000-5e-00-0", nic: "0000:5e:00.0"},
		"NIC at a GPU's address":      {name: "nic-0000-86-00-0", nic: "0000:86:00.0"},
		"NIC in a large domain":       {name: "nic-10000-f1-00-0", nic: "10000:f1:00.0"},
		"pair":                        {name: "gpu-0000-3b-00-0-nic-0000-5e-00-0", gpu: "GPU-1", nic: "0000:5e:00.0"},
		"pair in large domains":       {name: "gpu-10000-e1-00-0-nic-10000-f1-00-0", gpu: "GPU-3", nic: "10000:f1:00.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := node.Device(tc.name)
			if err != nil {
				t.Fatal(err)
			}
			if got.GPU.UUID != tc.gpu {
				t.Errorf("got GPU %s, want %s", got.GPU.UUID, tc.gpu)
			}
			var nic PCIAddress
			if got.NIC != nil {
				nic = got.NIC.PCI
			}
			if nic != tc.nic {
				t.Errorf("got NIC %q, want %q", nic, tc.nic)
			}
			switch {
			case tc.profile == "" && got.Partition != nil:
				t.Errorf("got a MIG slice: %+v", *got.Partition)
			case tc.profile != "" && got.Partition == nil:
				t.Error("got the whole GPU")
			case tc.profile != "" && (got.Partition.Profile.Name != tc.profile || got.Partition.Placement.Start != tc.start):
				t.Errorf("got %+v, want %s at %d", *got.Partition, tc.profile, tc.start)
			}
		})
	}
}

func TestDeviceRefused(t *testing.T) {
	tests := map[string]struct {
		name     string
		notFound bool
		want     string // part of the error
	}{
		"no such GPU":              {name: "gpu-0000-3c-00-0", notFound: true, want: "no GPU at 0000:3c:00.0"},
		"no such start":            {name: "gpu-0000-3b-00-0-mig-1g-10gb-2", notFound: true, want: "no such MIG slice"},
		"no such profile":          {name: "gpu-0000-3b-00-0-mig-2g-20gb-0", notFound: true, want: "no such MIG slice"},
		"MIG slice of a plain GPU": {name: "gpu-0000-86-00-0-mig-1g-10gb-0", notFound: true, want: "no such MIG slice"},
		"no such NIC":              {name: "nic-0000-3b-00-0", notFound: true, want: "no NIC at 0000:3b:00.0"},
		"pair without its GPU":     {name: "gpu-0000-3c-00-0-nic-0000-5e-00-0", notFound: true, want: "no GPU at 0000:3c:00.0"},
		"pair without its NIC":     {name: "gpu-0000-3b-00-0-nic-0000-3b-00-0", notFound: true, want: "no NIC at 0000:3b:00.0"},
		"pair of NICs":             {name: "nic-0000-5e-00-0-nic-0000-86-00-0", want: "not one of this driver"},
		"pair the other way round": {name: "nic-0000-5e-00-0-gpu-0000-3b-00-0", want: "not one of this driver"},
		"slice of a NIC":           {name: "nic-0000-5e-00-0-mig-1g-10gb-0", want: "not one of this driver"},
		"pair with a slice":        {name: "gpu-0000-3b-00-0-mig-1g-10gb-0-nic-0000-5e-00-0", notFound: true, want: "no such MIG slice"},
		"second spelling of a NIC": {name: "gpu-0000-3b-00-0-nic-00000000-5e-00-0", want: "its address is written 0000:5e:00.0"},
		"NIC's device too large":   {name: "nic-0000-5e-20-0", want: "above 1f"},
		"empty":                    {name: "", want: "not one of this driver"},
		"something after it":       {name: "gpu-0000-3b-00-0-", want: "not one of this driver"},
		"capitals":                 {name: "gpu-0000-3B-00-0", want: "not one of this driver"},
		"second spelling":          {name: "gpu-00000000-3b-00-0", want: "its address is written 0000:3b:00.0"},
		"device too large":         {name: "gpu-0000-3b-20-0", want: "above 1f"},
		"path":                     {name: "gpu-0000-3b-00-0/../..", want: "not one of this driver"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := testNode().Device(tc.name)
			if err == nil {
				t.Fatal("accepted")
			}
			if errors.Is(err, ErrNotFound) != tc.notFound || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v (not found: %v), want %q", err, errors.Is(err, ErrNotFound), tc.want)
			}
		})
	}
}

// FuzzNodeDevice asks that a name which is accepted is exactly the name under
// which that device is published.
func FuzzNodeDevice(f *testing.F) {
	node := testNode()
	for _, s := range []string{
		"gpu-0000-3b-00-0", "gpu-0000-3b-00-0-mig-1g-10gb-plus-me-1", "gpu-10000-e1-00-0-mig-1g-10gb-0",
		"gpu-00000000-3b-00-0", "gpu-0000-3b-00-0-mig-", "gpu-0000-3b-00-0-mig-1g-10gb-01", "nic-0000-5e-00-0", "",
		"gpu-0000-3b-00-0-nic-0000-5e-00-0", "nic-00000000-5e-00-0", "gpu-0000-3b-00-0-nic-", "nic-0000-86-00-0-mig-1g-10gb-0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := node.Device(s)
		if err != nil {
			return
		}
		name, addrs := nameOf(t, d)
		if name != s {
			t.Errorf("%q was accepted as %q", s, name)
		}
		got, err := AddressesOf(s)
		if diff := cmp.Diff(addrs, got); err != nil || diff != "" {
			t.Errorf("%q: addresses (-want +got), %v:\n%s", s, err, diff)
		}
		if one, err := AddressOf(s); (err == nil) != (len(addrs) == 1) || err == nil && one != addrs[0] {
			t.Errorf("%q: address %q, %v; the device is at %q", s, one, err, addrs)
		}
	})
}

// nameOf is the name under which a device is published, and where it is.
func nameOf(t *testing.T, d Device) (string, []PCIAddress) {
	t.Helper()
	switch {
	case d.GPU.PCI == "":
		return d.NIC.DeviceName(), []PCIAddress{d.NIC.PCI}
	case d.NIC != nil:
		return PairName(d.GPU, *d.NIC), []PCIAddress{d.GPU.PCI, d.NIC.PCI}
	case d.Partition != nil:
		if !d.Partition.Profile.Has(d.Partition.Placement) {
			t.Errorf("%+v is no placement of its profile", d.Partition.Placement)
		}
		return d.GPU.PartitionName(d.Partition.Profile, d.Partition.Placement), []PCIAddress{d.GPU.PCI}
	default:
		return d.GPU.DeviceName(), []PCIAddress{d.GPU.PCI}
	}
}

func TestAddressOfPair(t *testing.T) {
	if got, err := AddressOf("gpu-0000-3b-00-0-nic-0000-5e-00-0"); err == nil {
		t.Errorf("a pair has the one address %q", got)
	}
	got, err := AddressesOf("gpu-0000-3b-00-0-nic-0000-5e-00-0")
	if diff := cmp.Diff([]PCIAddress{"0000:3b:00.0", "0000:5e:00.0"}, got); err != nil || diff != "" {
		t.Errorf("addresses (-want +got), %v:\n%s", err, diff)
	}
}

func TestMIGProfile(t *testing.T) {
	m := testNode().GPUs[0].MIG
	if p, ok := m.Profile(mig.Profile1SliceRev1); !ok || p.Name != "1g.10gb+me" {
		t.Errorf("got %q, %v; want 1g.10gb+me", p.Name, ok)
	}
	if p, ok := m.Profile(mig.Profile7Slice); ok {
		t.Errorf("found %q, which the GPU does not offer", p.Name)
	}
}
