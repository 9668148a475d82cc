package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// refused are the models that cannot be simulated, with what is not known of them.
var refused = map[string][]string{
	"b300-269gb": {
		"multiprocessors", "pci.subsystemVendor", "pci.subsystemDevice", "mig.memoryMiB", "mig.multiprocessors",
		"mig.copyEngines", "mig.decoders", "mig.encoders", "mig.jpegEngines", "mig.ofaEngines",
	},
	"gb300-278gb": {
		"multiprocessors", "mig.memoryMiB", "mig.multiprocessors",
		"mig.copyEngines", "mig.decoders", "mig.encoders", "mig.jpegEngines", "mig.ofaEngines",
	},
}

// profileNames are what nvidia-smi mig -lgip prints (sources: the models' files;
// NVIDIA MIG User Guide), in the order of NVML's enum. Models without are not
// here.
var profileNames = map[string]string{
	"a100-40gb-sxm":     "1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb 1g.5gb+me 1g.10gb",
	"a100-80gb-sxm":     "1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.10gb+me 1g.20gb",
	"a100-80gb-sxm-old": "1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.10gb+me 1g.20gb",
	"a30-24gb":          "1g.6gb 2g.12gb 4g.24gb 1g.6gb+me 2g.12gb+me",
	"b200-180gb":        "1g.23gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb 1g.23gb+me 1g.45gb",
	"gb200-186gb":       "1g.23gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb 1g.23gb+me 1g.47gb",
	"gh200-96gb":        "1g.12gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb 1g.12gb+me 1g.24gb",
	"h100-80gb-pcie":    "1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.10gb+me 1g.20gb",
	"h100-80gb-sxm":     "1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.10gb+me 1g.20gb",
	"h100-94gb-nvl":     "1g.12gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb 1g.12gb+me 1g.24gb",
	"h200-141gb":        "1g.18gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb 1g.18gb+me 1g.35gb",
	"rtx-pro-6000-blackwell": "1g.24gb 2g.48gb 4g.96gb 1g.24gb+me 1g.24gb+gfx 2g.48gb+gfx 4g.96gb+gfx " +
		"1g.24gb-me 2g.48gb-me 1g.24gb+me.all 2g.48gb+me.all",
}

// partitioned loads every model that can be partitioned and simulated.
func partitioned(t *testing.T) map[string]Model {
	t.Helper()
	out := map[string]Model{}
	for _, name := range Models() {
		if refused[name] != nil {
			continue
		}
		m, _, err := LoadModel(name)
		if err != nil {
			t.Error(err)
		} else if m.MIG != nil {
			out[name] = m
		}
	}
	return out
}

func TestModels(t *testing.T) {
	want := []string{
		"a100-40gb-sxm", "a100-80gb-sxm", "a100-80gb-sxm-old", "a30-24gb", "b200-180gb", "b300-269gb", "gb200-186gb", "gb300-278gb",
		"gh200-96gb", "h100-80gb-pcie", "h100-80gb-sxm", "h100-94gb-nvl", "h200-141gb", "l40s", "rtx-pro-6000-blackwell", "t4",
	}
	if diff := cmp.Diff(want, Models()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestRefusedModelsSayWhatIsNotKnown(t *testing.T) {
	for name, fields := range refused {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadModel(name)
			if !errors.Is(err, ErrNotKnown) {
				t.Fatalf("got %v, want that something is not known", err)
			}
			want := "load model " + name + ": "
			for i, f := range fields {
				if i > 0 {
					want += "\n"
				}
				want += "model " + name + ": " + f + ": value is not known"
			}
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProfileNamesMIGC09(t *testing.T) {
	got := map[string]string{}
	for name, m := range partitioned(t) {
		var names []string
		for _, p := range m.MIG.Profiles {
			names = append(names, p.Name)
		}
		got[name] = strings.Join(names, " ")
	}
	if diff := cmp.Diff(profileNames, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestModelFigures has figures that differ from model to model in ways that the
// simulation acts on.
func TestModelFigures(t *testing.T) {
	type figures struct {
		Architecture                         string
		NeedsReset, ECC, GPM, NVLink         bool
		PowerWatts, SMClockMHz, MemClockMHz  int
		BAR1MiB                              int64
		Multiprocessors, LargestInstance, ID int
	}
	want := map[string]figures{
		"a100-40gb-sxm":          {"Ampere", true, true, false, true, 400, 1410, 1215, 65536, 108, 98, 0x20b0},
		"a30-24gb":               {"Ampere", true, true, false, true, 0, 0, 0, 0, 56, 56, 0x20b7},
		"h100-80gb-pcie":         {"Hopper", false, true, true, true, 350, 0, 0, 0, 114, 114, 0x2331},
		"h100-80gb-sxm":          {"Hopper", false, true, true, true, 700, 1980, 2619, 131072, 132, 132, 0x2330},
		"b200-180gb":             {"Blackwell", false, true, true, true, 1000, 1965, 3996, 262144, 148, 148, 0x2901},
		"rtx-pro-6000-blackwell": {"Blackwell", false, false, true, false, 600, 0, 0, 0, 188, 188, 0x2bb5},
		"l40s":                   {"Ada Lovelace", false, true, false, false, 350, 2520, 9001, 65536, 142, 0, 0x26b9},
		"t4":                     {"Turing", false, true, false, false, 70, 1590, 5001, 256, 40, 0, 0x1eb8},
	}
	got := map[string]figures{}
	for name := range want {
		m, _, err := LoadModel(name)
		if err != nil {
			t.Fatal(err)
		}
		f := figures{
			Architecture: m.Architecture, ECC: m.ECC, GPM: m.GPM, NVLink: m.NVLink,
			PowerWatts: m.PowerLimitWatts, SMClockMHz: m.MaxSMClockMHz, MemClockMHz: m.MaxMemoryClockMHz, BAR1MiB: m.BAR1MiB,
			Multiprocessors: m.Multiprocessors, ID: int(m.PCI.Device),
		}
		if m.MIG != nil {
			f.NeedsReset = m.MIG.ModeNeedsReset
			for _, p := range m.MIG.Profiles {
				f.LargestInstance = max(f.LargestInstance, p.Multiprocessors)
			}
		}
		got[name] = f
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

// TestOneGenerationOfDrivers has the same card under two drivers.
func TestOneGenerationOfDrivers(t *testing.T) {
	models := partitioned(t)
	now, before := models["a100-80gb-sxm"], models["a100-80gb-sxm-old"]
	if now.ProductName != before.ProductName || now.PCI != before.PCI {
		t.Errorf("not the same card: %s %+v and %s %+v", now.ProductName, now.PCI, before.ProductName, before.PCI)
	}
	if now.MIG.Profiles[0].Decoders != 1 || before.MIG.Profiles[0].Decoders != 0 {
		t.Errorf("decoders of 1g: %d now, %d before", now.MIG.Profiles[0].Decoders, before.MIG.Profiles[0].Decoders)
	}
}

// TestComputeProfiles has the enums that GPU instances offer: the plain one of a
// size before its variant, which only some offer.
func TestComputeProfiles(t *testing.T) {
	tests := map[string]map[int][]int{
		"h100-80gb-sxm": {
			mig.Profile1Slice: {0}, mig.Profile1SliceRev1: {0, 7}, mig.Profile1SliceRev2: {0}, mig.Profile2Slice: {0, 1},
			mig.Profile3Slice: {0, 1, 2}, mig.Profile4Slice: {0, 1, 2, 3}, mig.Profile7Slice: {0, 1, 2, 3, 4, 8},
		},
		"a30-24gb": {
			mig.Profile1Slice: {0}, mig.Profile1SliceRev1: {0, 7}, mig.Profile2Slice: {0, 1}, mig.Profile2SliceRev1: {0, 1},
			mig.Profile4Slice: {0, 1, 3},
		},
		"rtx-pro-6000-blackwell": {
			mig.Profile1Slice: {0}, mig.Profile1SliceRev1: {0}, mig.Profile1SliceGfx: {0}, mig.Profile1SliceNoMe: {0}, mig.Profile1SliceAllMe: {0},
			mig.Profile2Slice: {0, 1}, mig.Profile2SliceGfx: {0, 1}, mig.Profile2SliceNoMe: {0, 1}, mig.Profile2SliceAllMe: {0, 1},
			mig.Profile4Slice: {0, 1, 3}, mig.Profile4SliceGfx: {0, 1, 3},
		},
	}
	models := partitioned(t)
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[int][]int{}
			for enum, offered := range models[name].MIG.ComputeProfiles {
				for _, p := range offered {
					got[enum] = append(got[enum], p.Enum)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("compute instances (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSevenSliceVariantNeedsNVLink(t *testing.T) {
	g := geometryFile{ComputeInstances: []computeInstanceFile{{Enum: 4, Slices: 7}, {Enum: 8, Slices: 7, NVLink: true}}}
	gi := gpuInstanceFile{Enum: mig.Profile7Slice, Slices: 7}
	if n := len(g.compute(gi, true, 132, 16)); n != 2 {
		t.Errorf("with NVLink: %d compute instances, want 2", n)
	}
	if n := len(g.compute(gi, false, 132, 16)); n != 1 {
		t.Errorf("without NVLink: %d compute instances, want 1", n)
	}
}

func TestConflicts(t *testing.T) {
	want := map[string]map[int][]int{
		"a30-24gb": {mig.Profile1SliceRev1: {mig.Profile2SliceRev1}, mig.Profile2SliceRev1: {mig.Profile1SliceRev1}},
		"rtx-pro-6000-blackwell": {
			mig.Profile1Slice: {15, 16}, mig.Profile2Slice: {15, 16}, mig.Profile1SliceRev1: {15, 16}, mig.Profile1SliceGfx: {15, 16},
			mig.Profile2SliceGfx: {15, 16}, mig.Profile1SliceAllMe: {0, 1, 7, 10, 11, 16}, mig.Profile2SliceAllMe: {0, 1, 7, 10, 11, 15},
		},
	}
	for name, m := range partitioned(t) {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want[name], m.MIG.Conflicts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			for a, with := range m.MIG.Conflicts {
				for _, b := range with {
					if !slices.Contains(m.MIG.Conflicts[b], a) {
						t.Errorf("%d conflicts with %d, but not the other way round", a, b)
					}
					if !fitBeside(profile(t, m, a), profile(t, m, b)) {
						t.Errorf("%d and %d overlap wherever they are, which needs no saying", a, b)
					}
				}
			}
		})
	}
}

func profile(t *testing.T, m Model, enum int) mig.Profile {
	t.Helper()
	i := slices.IndexFunc(m.MIG.Profiles, func(p mig.Profile) bool { return p.Enum == enum })
	if i < 0 {
		t.Fatalf("%s has no profile with enum %d", m.Name, enum)
	}
	return m.MIG.Profiles[i]
}

func fitBeside(p, q mig.Profile) bool {
	return slices.ContainsFunc(p.Placements, func(a mig.Placement) bool {
		return slices.ContainsFunc(q.Placements, func(b mig.Placement) bool { return !a.Overlaps(b) })
	})
}

// TestInferredEntries asks that a warning names the entries of a column that a
// rule infers, and only those.
func TestInferredEntries(t *testing.T) {
	_, warnings, err := LoadModel("b200-180gb")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		if strings.HasPrefix(w.Field, "mig.multiprocessors") || strings.HasPrefix(w.Field, "mig.memoryMiB") {
			got = append(got, w.Field+" "+w.Rule)
		}
	}
	want := []string{
		"mig.memoryMiB printed-gib", "mig.memoryMiB[4] reserve-as-h200", "mig.memoryMiB[5] reserve-as-h200", "mig.memoryMiB[6] reserve-as-h200",
		"mig.multiprocessors[4] hopper-multiprocessors", "mig.multiprocessors[5] hopper-multiprocessors", "mig.multiprocessors[6] hopper-multiprocessors",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestColumnRefused(t *testing.T) {
	one, two := 1, 2
	source := provenance{Source: "a"}
	tests := map[string]struct {
		column columnFact[int]
		want   string
	}{
		"absent":        {columnFact[int]{}, "model x: c: value is not known"},
		"too short":     {columnFact[int]{fact: fact[[]*int]{source, &[]*int{&one}}}, "model x: c: has 1 entries, the geometry has 2 profiles"},
		"null entry":    {columnFact[int]{fact: fact[[]*int]{source, &[]*int{&one, nil}}}, "model x: c[1]: value is not known"},
		"no such entry": {columnFact[int]{fact[[]*int]{source, &[]*int{&one, &two}}, map[string][]int{"made-up": {2}}}, "model x: c: there is no entry 2 to except"},
		"no such rule":  {columnFact[int]{fact[[]*int]{source, &[]*int{&one, &two}}, map[string][]int{"gut": {1}}}, `model x: c[1]: unknown rule "gut"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := newReader("model x", map[string]string{"a": "somewhere"})
			if err != nil {
				t.Fatal(err)
			}
			column(r, "c", tc.column, 2)
			if len(r.errs) != 1 || r.errs[0].Error() != tc.want {
				t.Errorf("got %v, want %q", r.errs, tc.want)
			}
		})
	}
}
