package mig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountersH100(t *testing.T) {
	profiles := h100()
	c := NewCounters(profiles)
	want := map[string]int64{
		// 7g is the largest packing; seven 1g would be 69888 MiB.
		"memory":          81152 << 20,
		"multiprocessors": 132, "copy-engines": 8, "decoders": 7, "jpeg-engines": 7, "ofa-engines": 1,
		"memory-slice-0": 1, "memory-slice-1": 1, "memory-slice-2": 1, "memory-slice-3": 1,
		"memory-slice-4": 1, "memory-slice-5": 1, "memory-slice-6": 1, "memory-slice-7": 1,
		"max-1g-10gb-plus-me": 1,
	}
	if diff := cmp.Diff(want, c.Total); diff != "" {
		t.Errorf("total (-want +got):\n%s", diff)
	}

	tests := map[string]struct {
		start int
		want  map[string]int64
	}{
		"1g.10gb": {start: 6, want: map[string]int64{
			"memory": 9984 << 20, "multiprocessors": 16, "copy-engines": 1, "decoders": 1, "jpeg-engines": 1,
			"memory-slice-6": 1,
		}},
		"1g.10gb+me": {start: 0, want: map[string]int64{
			"memory": 9984 << 20, "multiprocessors": 16, "copy-engines": 1, "decoders": 1, "jpeg-engines": 1, "ofa-engines": 1,
			"memory-slice-0": 1, "max-1g-10gb-plus-me": 1,
		}},
		"1g.20gb": {start: 6, want: map[string]int64{
			"memory": 20096 << 20, "multiprocessors": 26, "copy-engines": 1, "decoders": 1, "jpeg-engines": 1,
			"memory-slice-6": 1, "memory-slice-7": 1,
		}},
		"3g.40gb": {start: 4, want: map[string]int64{
			"memory": 40448 << 20, "multiprocessors": 60, "copy-engines": 3, "decoders": 3, "jpeg-engines": 3,
			"memory-slice-4": 1, "memory-slice-5": 1, "memory-slice-6": 1, "memory-slice-7": 1,
		}},
		"7g.80gb": {start: 0, want: map[string]int64{
			"memory": 81152 << 20, "multiprocessors": 132, "copy-engines": 8, "decoders": 7, "jpeg-engines": 7, "ofa-engines": 1,
			"memory-slice-0": 1, "memory-slice-1": 1, "memory-slice-2": 1, "memory-slice-3": 1,
			"memory-slice-4": 1, "memory-slice-5": 1, "memory-slice-6": 1, "memory-slice-7": 1,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := find(profiles, name)
			got := c.Of(p, Placement{Start: tc.start, Size: p.Placements[0].Size})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("consumed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCountersLeaveOut(t *testing.T) {
	one := func(e Engines, maximum int) Profile {
		return Profile{Enum: Profile1Slice, Name: "1g.1gb", Slices: 1, MaxInstances: maximum, MemoryMiB: 1024, Engines: e, Placements: run(1, 0, 1)}
	}
	full := func(e Engines) Profile {
		return Profile{Enum: Profile2Slice, Name: "2g.2gb", Slices: 2, MaxInstances: 1, MemoryMiB: 2048, Engines: e, Placements: run(2, 0)}
	}
	tests := map[string]struct {
		profiles []Profile
		want     map[string]int64
	}{
		"an engine that instances share instead of splitting": {
			profiles: []Profile{one(Engines{Decoders: 1, CopyEngines: 1}, 2), full(Engines{Decoders: 1, CopyEngines: 2})},
			want:     map[string]int64{"memory": 2048 << 20, "copy-engines": 2, "memory-slice-0": 1, "memory-slice-1": 1},
		},
		"unknown memory": {
			profiles: []Profile{{Name: "1g.0gb", MaxInstances: 2, Placements: run(1, 0, 1)}},
			want:     map[string]int64{"memory-slice-0": 1, "memory-slice-1": 1},
		},
		"the memory of one instance where several together have more": {
			profiles: []Profile{{Name: "a", MaxInstances: 2, MemoryMiB: 3, Placements: run(1, 0, 1)}, {Name: "b", MaxInstances: 1, MemoryMiB: 5, Placements: run(2, 0)}},
			want:     map[string]int64{"memory": 6 << 20, "memory-slice-0": 1, "memory-slice-1": 1},
		},
		"nothing at all": {want: map[string]int64{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NewCounters(tc.profiles).Total); diff != "" {
				t.Errorf("total (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlaps(t *testing.T) {
	tests := map[string]struct {
		a, b Placement
		want bool
	}{
		"same":          {a: Placement{0, 4}, b: Placement{0, 4}, want: true},
		"inside":        {a: Placement{0, 8}, b: Placement{3, 1}, want: true},
		"last slice":    {a: Placement{0, 4}, b: Placement{3, 2}, want: true},
		"next to":       {a: Placement{0, 4}, b: Placement{4, 4}, want: false},
		"far":           {a: Placement{0, 1}, b: Placement{6, 1}, want: false},
		"empty is none": {a: Placement{2, 0}, b: Placement{2, 1}, want: false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Overlaps(tc.b); got != tc.want {
				t.Errorf("%v overlaps %v: %v", tc.a, tc.b, got)
			}
			if got := tc.b.Overlaps(tc.a); got != tc.want {
				t.Errorf("%v overlaps %v: %v", tc.b, tc.a, got)
			}
		})
	}
}
