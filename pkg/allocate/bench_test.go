package allocate_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
)

// BenchmarkAllocate is the scheduler's time for one node with eight GPUs, empty
// and with one MIG slice on every GPU, for claims that are made a lot.
func BenchmarkAllocate(b *testing.B) {
	slices := published(b, "dgx-h100")
	for _, fill := range []string{"empty", "broken-into"} {
		for _, bc := range []struct {
			name, class string
			count       int64
		}{{"1g", "1g", 1}, {"whole", "gpu", 1}, {"8-whole", "gpu", 8}, {"8-1g", "1g", 8}} {
			b.Run(fill+"/"+bc.name, func(b *testing.B) {
				s := state(b, allocate.Input{Slices: slices})
				if fill == "broken-into" {
					results, err := s.Allocate(b.Context(), node, claim("3g", 15))
					if err != nil {
						b.Fatal(err)
					}
					s.Hold(types.UID("holder"), results[0])
				}
				c := claim(bc.class, bc.count)
				for b.Loop() {
					_, _ = s.Allocate(b.Context(), node, c) // not fitting is measured too
				}
			})
		}
	}
}
