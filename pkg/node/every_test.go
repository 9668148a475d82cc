package node_test

import (
	"testing"

	"github.com/cleave-dra/cleave/pkg/catalog"
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
			for device := range published {
				c := f.claim("a", device)
				f.mustPrepare(c)
				f.mustUnprepare(c)
			}
			f.mustBeClean()
		})
	}
}
