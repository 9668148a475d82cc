package bench

import (
	"fmt"
	"testing"
)

// BenchmarkShapeTime is what one node costs the scheduler that looks for each form of
// claim, where it just fits and where one device is missing. 99 of 100 searches are to
// stay below 50 ms; where two GPUs and two NICs share a switch, below 150 ms.
func BenchmarkShapeTime(b *testing.B) {
	for name, s := range shapes() {
		hw := s.node(b)
		claim := s.claim(b, hw)
		for _, nodes := range []int{1, 16, 128} {
			for state, h := range map[string]held{"fits": s.fits, "short": s.short} {
				b.Run(fmt.Sprintf("%s/%d-nodes/%s", name, nodes, state), func(b *testing.B) {
					measure(b, s.cluster(b, hw, nodes, h), nodes, claim, state == "fits")
				})
			}
		}
	}
}
