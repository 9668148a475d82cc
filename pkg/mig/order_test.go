package mig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStarts(t *testing.T) {
	tests := map[string]struct {
		profiles []Profile
		want     map[string][]int
	}{
		// 1g at 6 spoils four placements, at 4 and 5 five, elsewhere six; 2g at 4
		// spoils six, elsewhere seven; 3g at 4 spoils eight, at 0 eleven.
		"seven by eight": {profiles: h100(), want: map[string][]int{
			"1g.10gb":    {6, 5, 4, 3, 2, 1, 0},
			"1g.10gb+me": {6, 5, 4, 3, 2, 1, 0},
			"1g.20gb":    {6, 4, 2, 0},
			"2g.20gb":    {4, 2, 0},
			"3g.40gb":    {4, 0},
			"4g.40gb":    {0},
			"7g.80gb":    {0},
		}},
		// All slices are alike: the higher start wins each tie.
		"four slices": {profiles: a30(), want: map[string][]int{
			"1g.6gb": {3, 2, 1, 0}, "1g.6gb+me": {3, 2, 1, 0},
			"2g.12gb": {2, 0}, "2g.12gb+me": {2, 0}, "4g.24gb": {0},
		}},
		"four slices in twelve units": {profiles: rtxPro6000(), want: map[string][]int{
			"1g.24gb": {9, 6, 3, 0}, "1g.24gb+me": {9, 6, 3, 0}, "1g.24gb+gfx": {9, 6, 3, 0}, "1g.24gb+me.all": {9, 6, 3, 0}, "1g.24gb-me": {9, 6, 3, 0},
			"2g.48gb": {6, 0}, "2g.48gb+me.all": {6, 0}, "4g.96gb": {0},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string][]int{}
			for _, p := range tc.profiles {
				for _, pl := range Starts(p, tc.profiles) {
					got[p.Name] = append(got[p.Name], pl.Start)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStartsLeavesTheProfileAlone(t *testing.T) {
	profiles := h100()
	Starts(profiles[0], profiles)
	if diff := cmp.Diff(h100(), profiles); diff != "" {
		t.Errorf("profiles changed (-want +got):\n%s", diff)
	}
}

func TestDestroyed(t *testing.T) {
	profiles := h100()
	want := map[string]map[int]int{
		"1g.10gb": {0: 6, 1: 6, 2: 6, 3: 6, 4: 5, 5: 5, 6: 4},
		"2g.20gb": {0: 7, 2: 7, 4: 6},
		"3g.40gb": {0: 11, 4: 8},
	}
	got := map[string]map[int]int{}
	for name := range want {
		got[name] = map[int]int{}
		for _, pl := range find(profiles, name).Placements {
			got[name][pl.Start] = destroyed(pl, profiles)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placements destroyed (-want +got):\n%s", diff)
	}
}

func TestGroup(t *testing.T) {
	tests := map[string]struct {
		profiles []Profile
		want     map[string]int
	}{
		"seven by eight": {profiles: h100(), want: map[string]int{
			"1g.10gb": 0, "1g.10gb+me": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 3, "7g.80gb": 3,
		}},
		"four slices": {profiles: a30(), want: map[string]int{
			"1g.6gb": 0, "1g.6gb+me": 1, "2g.12gb": 2, "2g.12gb+me": 2, "4g.24gb": 3,
		}},
		"four slices in twelve units": {profiles: rtxPro6000(), want: map[string]int{
			"1g.24gb": 0, "1g.24gb+gfx": 0, "1g.24gb-me": 0, "1g.24gb+me": 1, "1g.24gb+me.all": 1,
			"2g.48gb": 2, "2g.48gb+me.all": 2, "4g.96gb": 3,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, p := range tc.profiles {
				got[p.Name] = Group(p, tc.profiles)
				if got[p.Name] >= Groups {
					t.Errorf("%s: group %d, there are %d", p.Name, got[p.Name], Groups)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}
