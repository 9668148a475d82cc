package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// geometryFile is the form of geometries/*.yaml: what models of a family share.
type geometryFile struct {
	Name                   string                `json:"name"`
	Sources                map[string]string     `json:"sources"`
	MemorySlices           int                   `json:"memorySlices"`
	Profiles               provenance            `json:"profiles"`
	Placements             provenance            `json:"placements"`
	GPUInstances           []gpuInstanceFile     `json:"gpuInstances"`
	ComputeProfiles        provenance            `json:"computeProfiles"`
	ComputeChoice          provenance            `json:"computeChoice"`
	ComputeMultiprocessors provenance            `json:"computeMultiprocessors"`
	ComputeInstances       []computeInstanceFile `json:"computeInstances"`
	Conflicts              []conflictFile        `json:"conflicts,omitempty"`
}

type gpuInstanceFile struct {
	Enum   int   `json:"enum"`
	ID     int   `json:"id"`
	Slices int   `json:"slices"`
	Max    int   `json:"max"`
	Size   int   `json:"size"`
	Starts []int `json:"starts"`
}

// computeInstanceFile is a compute instance that every GPU instance offers whose
// slices it fits into, but for the variants, which say where they come from.
type computeInstanceFile struct {
	provenance
	Enum   int `json:"enum"`
	ID     int `json:"id"`
	Slices int `json:"slices"`
	// Only are the enums of the GPU instances that offer a variant.
	Only []int `json:"only,omitempty"`
	// NVLink marks a variant that only GPUs with NVLink offer.
	NVLink bool `json:"nvlink,omitempty"`
}

func (f computeInstanceFile) offered(giEnum, giSlices int, nvlink bool) bool {
	return f.Slices <= giSlices && (len(f.Only) == 0 || slices.Contains(f.Only, giEnum)) && (nvlink || !f.NVLink)
}

// conflictFile names GPU instances, by enum, that cannot be where another one is,
// although their placements and maxima would allow it.
type conflictFile struct {
	provenance
	Enum int   `json:"enum"`
	With []int `json:"with"`
}

// migFile is the form of a model's mig section: the geometry and one column per
// figure, whose entries follow the geometry's order. A null entry is not known.
type migFile struct {
	ModeNeedsReset  fact[bool]        `json:"modeNeedsReset"`
	Geometry        fact[string]      `json:"geometry"`
	MemoryMiB       columnFact[int64] `json:"memoryMiB"`
	Multiprocessors columnFact[int]   `json:"multiprocessors"`
	CopyEngines     columnFact[int]   `json:"copyEngines"`
	Decoders        columnFact[int]   `json:"decoders"`
	Encoders        columnFact[int]   `json:"encoders"`
	JPEGEngines     columnFact[int]   `json:"jpegEngines"`
	OFAEngines      columnFact[int]   `json:"ofaEngines"`
}

// columnFact is a column and where it comes from. Single entries may come from
// elsewhere.
type columnFact[T any] struct {
	fact[[]*T]
	// Except has the entries that rules infer, counted from 0, by the rule's name.
	Except map[string][]int `json:"except,omitempty"`
}

func (f migFile) read(r *reader, totalMiB int64, nvlink bool) *MIG {
	g, err := loadGeometry(r, need(r, "mig.geometry", f.Geometry))
	if err != nil {
		r.errs = append(r.errs, err)
		return nil
	}
	before, n := len(r.errs), len(g.GPUInstances)
	memory := column(r, "mig.memoryMiB", f.MemoryMiB, n)
	sms := column(r, "mig.multiprocessors", f.Multiprocessors, n)
	copies := column(r, "mig.copyEngines", f.CopyEngines, n)
	decoders := column(r, "mig.decoders", f.Decoders, n)
	encoders := column(r, "mig.encoders", f.Encoders, n)
	jpeg := column(r, "mig.jpegEngines", f.JPEGEngines, n)
	ofa := column(r, "mig.ofaEngines", f.OFAEngines, n)
	m := &MIG{
		ModeNeedsReset:  need(r, "mig.modeNeedsReset", f.ModeNeedsReset),
		MemorySlices:    g.MemorySlices,
		ComputeProfiles: map[int][]ComputeProfile{},
		Conflicts:       g.conflicts(),
	}
	for i, gi := range g.GPUInstances {
		p := mig.Profile{
			Enum: gi.Enum, ID: gi.ID, Slices: gi.Slices, MaxInstances: gi.Max,
			Name:      mig.Name(gi.Enum, gi.Slices, memory[i], totalMiB),
			MemoryMiB: memory[i],
			Engines: mig.Engines{
				Multiprocessors: sms[i], CopyEngines: copies[i], Decoders: decoders[i],
				Encoders: encoders[i], JPEGEngines: jpeg[i], OFAEngines: ofa[i],
			},
		}
		for _, s := range gi.Starts {
			p.Placements = append(p.Placements, mig.Placement{Start: s, Size: gi.Size})
		}
		m.Profiles = append(m.Profiles, p)
		m.ComputeSlices = max(m.ComputeSlices, gi.Slices)
		m.ComputeProfiles[gi.Enum] = g.compute(gi, nvlink, sms[i], sms[0])
	}
	slices.SortFunc(m.Profiles, func(a, b mig.Profile) int { return cmp.Compare(a.Enum, b.Enum) })
	if len(r.errs) == before {
		// What is not known would only be reported once more, as a contradiction.
		r.errs = append(r.errs, checkMIG(r.subject, m)...)
	}
	return m
}

// compute is what a GPU instance with so many SMs offers; unit is the number of
// SMs of the smallest GPU instance.
func (g geometryFile) compute(gi gpuInstanceFile, nvlink bool, giSMs, unit int) []ComputeProfile {
	var out []ComputeProfile
	for _, ci := range g.ComputeInstances {
		if !ci.offered(gi.Enum, gi.Slices, nvlink) {
			continue
		}
		p := ComputeProfile{Enum: ci.Enum, ID: ci.ID, Slices: ci.Slices, MaxInstances: gi.Slices / ci.Slices, Multiprocessors: ci.Slices * unit}
		if ci.Slices == gi.Slices {
			p.Multiprocessors = giSMs
		}
		out = append(out, p)
	}
	return out
}

// conflicts lists them in both directions, in ascending order.
func (g geometryFile) conflicts() map[int][]int {
	out := map[int][]int{}
	for _, c := range g.Conflicts {
		for _, with := range c.With {
			out[c.Enum] = append(out[c.Enum], with)
			out[with] = append(out[with], c.Enum)
		}
	}
	for enum := range out {
		slices.Sort(out[enum])
		out[enum] = slices.Compact(out[enum])
	}
	return out
}

func loadGeometry(parent *reader, name string) (geometryFile, error) {
	var g geometryFile
	if err := load("geometries", name, &g); err != nil {
		return g, err
	}
	r, err := newReader("geometry "+name, g.Sources)
	if err != nil {
		return g, err
	}
	r.from("profiles", g.Profiles)
	r.from("placements", g.Placements)
	r.from("computeProfiles", g.ComputeProfiles)
	r.from("computeChoice", g.ComputeChoice)
	r.from("computeMultiprocessors", g.ComputeMultiprocessors)
	for _, ci := range g.ComputeInstances {
		if len(ci.Only) > 0 || ci.NVLink {
			r.from(fmt.Sprintf("computeInstances of enum %d", ci.Enum), ci.provenance)
		}
	}
	for _, c := range g.Conflicts {
		r.from(fmt.Sprintf("conflicts of enum %d", c.Enum), c.provenance)
	}
	r.finish()
	parent.warnings = append(parent.warnings, r.warnings...)
	return g, errors.Join(r.errs...)
}

// column reads one figure for all n profiles.
func column[T any](r *reader, field string, f columnFact[T], n int) []T {
	out := make([]T, n)
	if f.Value == nil {
		r.unknown(field)
		return out
	}
	values := need(r, field, f.fact)
	for _, rule := range slices.Sorted(maps.Keys(f.Except)) {
		for _, i := range f.Except[rule] {
			r.from(fmt.Sprintf("%s[%d]", field, i), provenance{Inferred: rule})
			if i < 0 || i >= n {
				r.fail(field, "there is no entry %d to except", i)
			}
		}
	}
	if len(values) != n {
		r.fail(field, "has %d entries, the geometry has %d profiles", len(values), n)
		return out
	}
	for i, v := range values {
		if v == nil {
			r.unknown(fmt.Sprintf("%s[%d]", field, i))
			continue
		}
		out[i] = *v
	}
	return out
}
