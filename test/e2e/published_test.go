//go:build e2e

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// h100Slices is how many placements each MIG profile has on an H100 with 80 GB.
var h100Slices = map[string]int{
	"1g.10gb": 7, "1g.10gb+me": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1,
}

// TestPublished: every GPU and every placement of every profile is offered, and a
// GPU that cannot be split is offered whole, without counters (DISC-01).
func TestPublished(t *testing.T) {
	e := newEnv(t)
	published, err := e.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for server, h100s := range map[string]int{dgx: 8, mixed: 1} {
		e.run(server, func(e *env) {
			want := map[string]int{h100: h100s, "InfiniBand": 8, "Ethernet": 2, "pair": 8}
			if server == mixed {
				want = map[string]int{h100: h100s, l40s: 1, "InfiniBand": 2}
			}
			for profile, n := range h100Slices {
				want[profile] = n * h100s
			}
			got := map[string]int{}
			for _, p := range published {
				if p.Node == e.nodes[server] {
					got[kind(p.Device)]++
					e.checkCounted(p.Device)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				e.t.Errorf("devices by product or profile (-want +got):\n%s", diff)
			}
		})
	}
}

// kind is a device's profile, or the product of a whole GPU.
func kind(d resourceapi.Device) string {
	a := cluster.Allocated{Device: d}
	switch a.Attribute("type") {
	case "mig":
		return a.Attribute("profile")
	case "nic":
		return a.Attribute("linkLayer")
	case "gpu-nic":
		return "pair"
	}
	return a.Attribute("productName")
}

// checkCounted checks that the whole GPUs that consume counters are those that can be
// split.
func (e *env) checkCounted(d resourceapi.Device) {
	e.t.Helper()
	product := kind(d)
	if counted := len(d.ConsumesCounters) > 0; product == h100 && !counted || product == l40s && counted {
		e.t.Errorf("DISC-01: %s (%s) consumes counters: %v", d.Name, product, counted)
	}
}
