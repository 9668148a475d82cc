package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDroppedSLICE05: an API server that drops counters gets whole GPUs only, from
// the first slice on.
func TestDroppedSLICE05(t *testing.T) {
	f := newFixture(t, "mixed", func(f *fixture) { f.dropCounters = true })
	all, err := f.taints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{f.whole(0): "", f.whole(1): ""}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

// TestDroppedTaints: where the API server drops taints, what would be tainted is left
// out. The first attempt shows that it does; what a claim holds stays.
func TestDroppedTaints(t *testing.T) {
	tests := map[string]struct {
		dropCounters bool
		// neighbour is a slice that a foreign instance does not obstruct, "" or "-".
		neighbour string
	}{
		"counters are kept":    {neighbour: ""},
		"counters are dropped": {dropCounters: true, neighbour: "-"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "mixed", func(f *fixture) { f.dropTaints, f.dropCounters = true, tc.dropCounters })
			f.makeForeign("1g.10gb", 6)
			f.awaitTaint(f.whole(0), "-")
			f.awaitTaint(f.slice(0, "3g.40gb", 4), "-")
			f.awaitTaint(f.slice(0, "3g.40gb", 0), tc.neighbour)
			f.await("the plugin is ready again", f.plugin.Ready)

			c := f.claim("a", f.whole(1))
			f.mustPrepare(c)
			f.hw.Do("lose", "--gpu=1")
			f.holdsFor(f.whole(1), "", time.Second)
			f.mustUnprepare(c)
			f.awaitTaint(f.whole(1), "-")
			f.await("the plugin is ready at last", f.plugin.Ready)
		})
	}
}
