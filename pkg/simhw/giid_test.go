package simhw

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// The listings in NVIDIA/DCGM#138, and what must hold of every GPU.
func TestInstanceIDs(t *testing.T) {
	m := &catalog.MIG{MemorySlices: 8}
	at := func(start, size int) mig.Placement { return mig.Placement{Start: start, Size: size} }
	printed := []mig.Placement{at(2, 1), at(3, 1), at(0, 2), at(4, 4)}
	seen := map[string]bool{}
	for gpu := range 400 {
		uuid := catalog.UUID("ids", gpu)
		var ids []int
		for _, pl := range printed {
			ids = append(ids, instanceID(m, uuid, pl))
		}
		seen[fmt.Sprint(ids)] = true
		checkIDs(t, m, uuid)
	}
	for _, want := range [][]int{{9, 10, 3, 2}, {13, 14, 5, 1}} {
		if !seen[fmt.Sprint(want)] {
			t.Errorf("no GPU of 400 has the ids %v that were seen on a real one", want)
		}
	}
}

// checkIDs: each size has its class, no two places of it the same id, and an
// instance's id is below that of the larger one around it.
func checkIDs(t *testing.T, m *catalog.MIG, uuid string) {
	t.Helper()
	classes := map[int][]int{8: {0}, 4: {1, 2}, 2: {3, 4, 5, 6}, 1: {7, 8, 9, 10, 11, 12, 13, 14}}
	for size, class := range classes {
		got := map[int]bool{}
		for start := 0; start < m.MemorySlices; start += size {
			id := instanceID(m, uuid, mig.Placement{Start: start, Size: size})
			got[id] = true
			if size < 8 {
				around := instanceID(m, uuid, mig.Placement{Start: start / (2 * size) * 2 * size, Size: 2 * size})
				if (id-1)/2 != around {
					t.Errorf("%s: id %d at %d+%d, in the one with id %d", uuid, id, start, size, around)
				}
			}
		}
		want := map[int]bool{}
		for _, id := range class {
			want[id] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: ids of size %d (-want +got):\n%s", uuid, size, diff)
		}
	}
}

func TestInstanceIDsOfOtherGeometries(t *testing.T) {
	tests := map[string]struct {
		slices int
		at     mig.Placement
		class  []int
	}{
		"whole of 4":    {4, mig.Placement{Start: 0, Size: 4}, []int{0}},
		"half of 4":     {4, mig.Placement{Start: 2, Size: 2}, []int{1, 2}},
		"quarter of 4":  {4, mig.Placement{Start: 3, Size: 1}, []int{3, 4, 5, 6}},
		"quarter of 12": {12, mig.Placement{Start: 9, Size: 3}, []int{3, 4, 5, 6}},
		"half of 12":    {12, mig.Placement{Start: 6, Size: 6}, []int{1, 2}},
		"whole of 12":   {12, mig.Placement{Start: 0, Size: 12}, []int{0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			id := instanceID(&catalog.MIG{MemorySlices: tc.slices}, "GPU-x", tc.at)
			if id < tc.class[0] || id > tc.class[len(tc.class)-1] {
				t.Errorf("id %d, want one of %v", id, tc.class)
			}
		})
	}
}

// The id belongs to the place: it is there again whenever the place is free.
func TestInstanceIDIsThePlaces(t *testing.T) {
	e := withMIG(t)
	first := create(t, e, id1g, 6, 1)
	if ret := e.DestroyGPUInstance(Handle{Serial: first.Serial}); ret != 0 {
		t.Fatal(ret)
	}
	create(t, e, id1g, 5, 1)
	if again := create(t, e, id1gMedia, 6, 1); again.ID != first.ID {
		t.Errorf("id %d, then %d for another profile at the same place", first.ID, again.ID)
	}
	ids := e.Snapshot().GPUs[0].Instances
	if ids[0].ID > ids[1].ID {
		t.Errorf("instances are not in the order of their ids: %+v", ids)
	}
}
