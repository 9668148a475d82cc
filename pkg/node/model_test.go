package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

const (
	first  = hardware.PCIAddress("0000:3b:00.0")
	second = hardware.PCIAddress("0000:86:00.0")
)

func gpuAt(pci hardware.PCIAddress, uuid string, memoryMiB int64) hardware.GPU {
	p := mig.Profile{Name: "1g.10gb", MemoryMiB: memoryMiB, Placements: []mig.Placement{{Start: 0, Size: 1}}}
	return hardware.GPU{PCI: pci, UUID: uuid, MIG: &hardware.MIG{Switchable: true, Profiles: []mig.Profile{p}}}
}

// TestModelUpdate follows GPUs that go, come back, change and are exchanged, with
// and without a claim on them: what is held stays as it was published.
func TestModelUpdate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := gpuAt(first, "GPU-a", 10), gpuAt(second, "GPU-b", 10)
	other, changed := gpuAt(first, "GPU-c", 10), gpuAt(first, "GPU-a", 11)
	switched := gpuAt(first, "GPU-a", 10)
	switched.MIG.Enabled = true
	joined := gpuAt(first, "GPU-a", 10)
	joined.NVLink = &hardware.NVLinkFabric{Cluster: "rack", Clique: 2}
	type step struct {
		after   time.Duration
		found   []hardware.GPU
		held    bool // whether a claim holds a device on the first GPU
		want    []hardware.GPU
		missing map[hardware.PCIAddress]string
	}
	gone, replaced := map[hardware.PCIAddress]string{first: "gone"}, map[hardware.PCIAddress]string{first: "replaced"}
	tests := map[string][]step{
		"goes for good": {
			{found: []hardware.GPU{a, b}, want: []hardware.GPU{a, b}},
			{after: time.Minute, found: []hardware.GPU{b}, want: []hardware.GPU{a, b}, missing: gone},
			{after: 10 * time.Minute, found: []hardware.GPU{b}, want: []hardware.GPU{a, b}, missing: gone},
			{after: 11 * time.Minute, found: []hardware.GPU{b}, want: []hardware.GPU{b}},
		},
		"goes while a claim holds it": {
			{found: []hardware.GPU{a, b}, want: []hardware.GPU{a, b}, held: true},
			{after: time.Hour, found: []hardware.GPU{b}, want: []hardware.GPU{a, b}, held: true, missing: gone},
			{after: 2 * time.Hour, found: []hardware.GPU{b}, want: []hardware.GPU{a, b}, held: true, missing: gone},
			{after: 3 * time.Hour, found: []hardware.GPU{b}, want: []hardware.GPU{b}},
		},
		"comes back": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}},
			{after: time.Minute, want: []hardware.GPU{a}, missing: gone},
			{after: 2 * time.Minute, found: []hardware.GPU{a}, want: []hardware.GPU{a}},
			{after: 20 * time.Minute, want: []hardware.GPU{a}, missing: gone},
		},
		"is exchanged": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}},
			{after: time.Minute, found: []hardware.GPU{other}, want: []hardware.GPU{other}},
		},
		"is exchanged while a claim holds it": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}, held: true},
			{after: time.Minute, found: []hardware.GPU{other}, want: []hardware.GPU{a}, held: true, missing: replaced},
			{after: 2 * time.Minute, found: []hardware.GPU{other}, want: []hardware.GPU{other}},
		},
		"changes with a driver update": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}},
			{after: time.Minute, found: []hardware.GPU{changed}, want: []hardware.GPU{changed}},
		},
		"changes while a claim holds it": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}, held: true},
			{after: time.Minute, found: []hardware.GPU{changed}, want: []hardware.GPU{a}, held: true},
			{after: 2 * time.Minute, found: []hardware.GPU{changed}, want: []hardware.GPU{changed}},
		},
		"joins its NVLink fabric late": {
			{found: []hardware.GPU{a, b}, want: []hardware.GPU{a, b}},
			{after: time.Minute, found: []hardware.GPU{joined, b}, want: []hardware.GPU{joined, b}},
			{after: 2 * time.Minute, found: []hardware.GPU{joined, b}, want: []hardware.GPU{joined, b}},
		},
		"joins its NVLink fabric while a claim holds it": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}, held: true},
			{after: time.Minute, found: []hardware.GPU{joined}, want: []hardware.GPU{a}, held: true},
			{after: 2 * time.Minute, found: []hardware.GPU{joined}, want: []hardware.GPU{joined}},
		},
		"leaves its NVLink fabric while a claim holds it": {
			{found: []hardware.GPU{joined}, want: []hardware.GPU{joined}, held: true},
			{after: time.Minute, found: []hardware.GPU{a}, want: []hardware.GPU{joined}, held: true},
			{after: 2 * time.Minute, found: []hardware.GPU{a}, want: []hardware.GPU{a}},
		},
		"is switched while a claim holds it": {
			{found: []hardware.GPU{a}, want: []hardware.GPU{a}, held: true},
			{after: time.Minute, found: []hardware.GPU{switched}, want: []hardware.GPU{switched}, held: true},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var m model
			for i, s := range steps {
				held := func(gpu hardware.PCIAddress) bool { return s.held && gpu == first }
				got, missing := m.update(hardware.Node{GPUs: append([]hardware.GPU(nil), s.found...)}, held, start.Add(s.after))
				if diff := cmp.Diff(s.want, got.GPUs); diff != "" {
					t.Errorf("step %d: GPUs (-want +got):\n%s", i, diff)
				}
				if s.missing == nil {
					s.missing = map[hardware.PCIAddress]string{}
				}
				if diff := cmp.Diff(s.missing, missing); diff != "" {
					t.Errorf("step %d: missing (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}
