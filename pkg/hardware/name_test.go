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
}

func TestDevice(t *testing.T) {
	node := testNode()
	tests := map[string]struct {
		name    string
		gpu     string // UUID
		profile string // empty: the whole GPU
		start   int
	}{
		"whole GPU":                   {name: "gpu-0000-3b-00-0", gpu: "GPU-1"},
		"whole GPU without MIG":       {name: "gpu-0000-86-00-0", gpu: "GPU-2"},
		"MIG slice":                   {name: "gpu-0000-3b-00-0-mig-1g-10gb-1", gpu: "GPU-1", profile: "1g.10gb", start: 1},
		"MIG slice with media":        {name: "gpu-0000-3b-00-0-mig-1g-10gb-plus-me-0", gpu: "GPU-1", profile: "1g.10gb+me"},
		"MIG slice in a large domain": {name: "gpu-10000-e1-00-0-mig-1g-10gb-0", gpu: "GPU-3", profile: "1g.10gb"},
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
		"NIC":                      {name: "nic-0000-5e-00-0", want: "not one of this driver"},
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
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := node.Device(s)
		if err != nil {
			return
		}
		name := d.GPU.DeviceName()
		if d.Partition != nil {
			name = d.GPU.PartitionName(d.Partition.Profile, d.Partition.Placement)
			if !d.Partition.Profile.Has(d.Partition.Placement) {
				t.Errorf("%q: %+v is no placement of its profile", s, d.Partition.Placement)
			}
		}
		if name != s {
			t.Errorf("%q was accepted as %q", s, name)
		}
		if addr, err := AddressOf(s); err != nil || addr != d.GPU.PCI {
			t.Errorf("%q: address %q, %v; the device is at %q", s, addr, err, d.GPU.PCI)
		}
	})
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
