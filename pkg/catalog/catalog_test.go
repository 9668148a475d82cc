package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

func TestH100Profiles(t *testing.T) {
	m, warnings, err := LoadModel("h100-80gb-sxm")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range m.MIG.Profiles {
		names = append(names, p.Name)
	}
	// In the order of NVML's enum: 1, 2, 3, 4 and 7 slices, then the variants.
	want := []string{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me", "1g.20gb"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("profile names (-want +got):\n%s", diff)
	}
	rules := map[string]bool{}
	for _, w := range warnings {
		rules[w.Rule] = true
		if w.Text == "" {
			t.Errorf("warning without text: %v", w)
		}
	}
	wantRules := map[string]bool{"printed-gib": true, "same-family": true, "compute-share": true, "one-compute-profile": true, "rev1-compute": true, "nvl-compute": true}
	if diff := cmp.Diff(wantRules, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestServerNode(t *testing.T) {
	s, _, err := LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Node()
	numa := 1
	want := hardware.GPU{
		PCI: "0000:86:00.0", UUID: UUID("mixed", 1), Minor: 1, ProductName: "NVIDIA L40S", Brand: "Nvidia",
		Architecture: "Ada Lovelace", CUDAComputeCapability: "8.9", MemoryMiB: 46068, PCIeRoot: "pci0000:85", NUMANode: &numa,
		Bridges: []hardware.PCIAddress{"0000:85:01.0"},
	}
	if diff := cmp.Diff(want, n.GPUs[1]); diff != "" {
		t.Errorf("L40S (-want +got):\n%s", diff)
	}
	if n.GPUs[0].MIG == nil || n.GPUs[0].MIG.Enabled {
		t.Errorf("H100: want MIG off but possible, got %+v", n.GPUs[0].MIG)
	}
}

func TestUUIDs(t *testing.T) {
	if first, again := UUID("a", 0), UUID("a", 0); first != again {
		t.Error("the UUID changes from call to call")
	}
	if UUID("a", 0) == UUID("a", 1) || UUID("a", 0) == UUID("b", 0) {
		t.Error("two GPUs have the same UUID")
	}
	if u := UUID("a", 0); len(u) != len("GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b") || !strings.HasPrefix(u, "GPU-") {
		t.Errorf("UUID %q has not NVML's form", u)
	}
}

func TestRefused(t *testing.T) {
	value := 5
	tests := map[string]struct {
		fact fact[int]
		want string
	}{
		"absent":         {fact[int]{}, "model x: f: value is not known"},
		"no provenance":  {fact[int]{Value: &value}, "model x: f: name either a source or the rule that infers it"},
		"two":            {fact[int]{Value: &value, provenance: provenance{Source: "a", Inferred: "made-up"}}, "model x: f: name either a source or the rule that infers it"},
		"unknown source": {fact[int]{Value: &value, provenance: provenance{Source: "b"}}, `model x: f: unknown source "b"`},
		"unknown rule":   {fact[int]{Value: &value, provenance: provenance{Inferred: "b"}}, `model x: f: unknown rule "b"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := newReader("model x", map[string]string{"a": "somewhere"})
			if err != nil {
				t.Fatal(err)
			}
			need(r, "f", tc.fact)
			if len(r.errs) != 1 || r.errs[0].Error() != tc.want {
				t.Errorf("got %v, want %q", r.errs, tc.want)
			}
		})
	}
}

func TestCheckMIG(t *testing.T) {
	tests := map[string]struct {
		spoil func(*MIG)
		want  string
	}{
		"placement outside": {func(m *MIG) { m.Profiles[0].Placements[6].Start = 8 }, "placement 8+1 is not within 8 memory slices"},
		"same ID":           {func(m *MIG) { m.Profiles[1].ID = m.Profiles[0].ID }, "is not unique"},
		"too many":          {func(m *MIG) { m.Profiles[4].MaxInstances = 2 }, "2 instances, but 1 placements"},
		"no memory":         {func(m *MIG) { m.Profiles[0].MemoryMiB = 0 }, "must be positive"},
		"no compute":        {func(m *MIG) { delete(m.ComputeProfiles, 4) }, "no compute instance fits"},
		"unknown conflict":  {func(m *MIG) { m.Conflicts[16] = []int{0} }, "conflict of enum 16: there is no such profile"},
		"with itself":       {func(m *MIG) { m.Conflicts[7] = []int{7} }, "enum 7 conflicts with itself"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, _, err := LoadModel("h100-80gb-sxm")
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(m.MIG)
			errs := checkMIG("model x", m.MIG)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}
