package node_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// TestEveryDevice prepares everything that is published once: what the scheduler may
// give out exists, or can be made.
func TestEveryDevice(t *testing.T) {
	for _, server := range []string{"dgx-h100", "mixed"} {
		t.Run(server, func(t *testing.T) {
			f := newFixture(t, server)
			s, _, err := catalog.LoadServer(server)
			if err != nil {
				t.Fatal(err)
			}
			published, err := f.taints(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, g := range s.Node().GPUs {
				want++
				if g.MIG == nil {
					continue
				}
				for _, p := range g.MIG.Profiles {
					want += len(p.Placements)
				}
			}
			if len(published) != want {
				t.Errorf("%d devices are published, want %d", len(published), want)
			}
			// One claim for the first device of every GPU, one for the second, and so on:
			// devices of one GPU exclude each other.
			byGPU := map[hardware.PCIAddress][]string{}
			for _, device := range slices.Sorted(maps.Keys(published)) {
				addr, err := hardware.AddressOf(device)
				if err != nil {
					t.Fatal(err)
				}
				byGPU[addr] = append(byGPU[addr], device)
			}
			for i := 0; ; i++ {
				var devices []string
				for _, all := range byGPU {
					if i < len(all) {
						devices = append(devices, all[i])
					}
				}
				if len(devices) == 0 {
					break
				}
				c := f.claim("a", devices...)
				f.mustPrepare(c)
				f.mustUnprepare(c)
			}
			f.mustBeClean()
		})
	}
}
