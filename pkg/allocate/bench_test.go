package allocate_test

import (
	"testing"

	"github.com/cleave-dra/cleave/pkg/allocate"
)

// BenchmarkAllocate is the scheduler's time for one node with eight GPUs, for
// claims that are made a lot: on an empty node, and where a search is long, with
// half a GPU left.
func BenchmarkAllocate(b *testing.B) {
	slices := published(b, "dgx-h100")
	tests := []struct {
		name, held string
		holds      int64
		class      string
		count      int64
		fits       bool
	}{
		{name: "empty/1g", class: "1g", count: 1, fits: true},
		{name: "empty/8x1g", class: "1g", count: 8, fits: true},
		{name: "empty/whole", class: "gpu", count: 1, fits: true},
		{name: "empty/8xwhole", class: "gpu", count: 8, fits: true},
		{name: "full/1g", held: "3g", holds: 15, class: "1g", count: 1, fits: true},
		{name: "full/8x1g", held: "3g", holds: 15, class: "1g", count: 8, fits: false},
		{name: "full/whole", held: "3g", holds: 15, class: "gpu", count: 1, fits: false},
		{name: "full/8xwhole", held: "3g", holds: 15, class: "gpu", count: 8, fits: false},
	}
	for _, tc := range tests {
		b.Run(tc.name, func(b *testing.B) {
			s := state(b, allocate.Input{Slices: slices})
			if tc.held != "" {
				results, err := s.Allocate(b.Context(), node, claim(tc.held, tc.holds))
				if err != nil {
					b.Fatal(err)
				}
				s.Hold("holder", results[0])
			}
			c := claim(tc.class, tc.count)
			for b.Loop() {
				if _, err := s.Allocate(b.Context(), node, c); (err == nil) != tc.fits {
					b.Fatalf("fits is %v: %v", tc.fits, err)
				}
			}
		})
	}
}
