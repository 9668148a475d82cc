package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// checkMIG finds contradictions in a model's geometry.
func checkMIG(subject string, m *MIG) []error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", subject, fmt.Sprintf(format, args...)))
	}
	enums, ids, names := map[int]bool{}, map[int]bool{}, map[string]bool{}
	for _, p := range m.Profiles {
		if enums[p.Enum] || ids[p.ID] || names[p.Name] {
			fail("profile %s (enum %d, ID %d) is not unique", p.Name, p.Enum, p.ID)
		}
		enums[p.Enum], ids[p.ID], names[p.Name] = true, true, true
		if p.Slices < 1 || p.MemoryMiB < 1 || p.Multiprocessors < 1 || p.MaxInstances < 1 {
			fail("profile %s: slices, memory, multiprocessors and maximum must be positive", p.Name)
		}
		errs = append(errs, checkPlacements(subject, m, p)...)
		if len(m.ComputeProfiles[p.Enum]) == 0 {
			fail("profile %s: no compute instance fits", p.Name)
		}
	}
	return append(errs, checkConflicts(subject, m)...)
}

func checkConflicts(subject string, m *MIG) []error {
	var errs []error
	maximum := map[int]int{}
	for _, p := range m.Profiles {
		maximum[p.Enum] = p.MaxInstances
	}
	for _, enum := range slices.Sorted(maps.Keys(m.Conflicts)) {
		if maximum[enum] == 0 {
			errs = append(errs, fmt.Errorf("%s: conflict of enum %d: there is no such profile", subject, enum))
		}
		if slices.Contains(m.Conflicts[enum], enum) && maximum[enum] == 1 {
			errs = append(errs, fmt.Errorf("%s: enum %d conflicts with itself: its maximum of 1 says that already", subject, enum))
		}
	}
	return errs
}

func checkPlacements(subject string, m *MIG, p mig.Profile) []error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: profile %s: %s", subject, p.Name, fmt.Sprintf(format, args...)))
	}
	if len(p.Placements) == 0 {
		fail("no placements")
	}
	for i, pl := range p.Placements {
		if pl.Start < 0 || pl.Size < 1 || pl.End() > m.MemorySlices {
			fail("placement %d+%d is not within %d memory slices", pl.Start, pl.Size, m.MemorySlices)
		}
		if i > 0 && pl.Start <= p.Placements[i-1].Start {
			fail("placements are not in ascending order")
		}
	}
	if p.MaxInstances > len(p.Placements) {
		fail("%d instances, but %d placements", p.MaxInstances, len(p.Placements))
	}
	return errs
}
