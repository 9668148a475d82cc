package simhw

import (
	"crypto/sha256"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// instanceID is the id that the GPU gives to an instance at a placement. Ids form
// a tree: the whole GPU has 0, its halves 1 and 2, the quarters of half n 2n+1 and
// 2n+2, and so on. Which of two halves comes first differs from GPU to GPU and is
// the same for good on one: the listings in NVIDIA/DCGM#138 have a 1g at start 2
// with id 9 on one GPU and 13 on another, and fit this. There, the choice is
// unknown; here it follows from the UUID.
func instanceID(m *catalog.MIG, uuid string, at mig.Placement) int {
	swaps := sha256.Sum256([]byte("order of slices of " + uuid))
	id, first, size := 0, 0, m.MemorySlices
	for size > at.Size {
		size /= 2
		upper := at.Start >= first+size
		if upper {
			first += size
		}
		if upper != swapped(swaps, id) {
			id = 2*id + 2
		} else {
			id = 2*id + 1
		}
	}
	return id
}

func swapped(swaps [sha256.Size]byte, node int) bool {
	return swaps[node%sha256.Size]&1 == 1
}
