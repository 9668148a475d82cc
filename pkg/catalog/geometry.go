package catalog

import (
	"cmp"
	"errors"
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
}

type gpuInstanceFile struct {
	Enum   int   `json:"enum"`
	ID     int   `json:"id"`
	Slices int   `json:"slices"`
	Max    int   `json:"max"`
	Size   int   `json:"size"`
	Starts []int `json:"starts"`
}

type computeInstanceFile struct {
	Enum   int `json:"enum"`
	ID     int `json:"id"`
	Slices int `json:"slices"`
}

// migFile is the form of a model's mig section: the geometry and one column per
// figure, whose entries follow the geometry's order. A null entry is not known.
type migFile struct {
	ModeNeedsReset  fact[bool]     `json:"modeNeedsReset"`
	Geometry        fact[string]   `json:"geometry"`
	MemoryMiB       fact[[]*int64] `json:"memoryMiB"`
	Multiprocessors fact[[]*int]   `json:"multiprocessors"`
	CopyEngines     fact[[]*int]   `json:"copyEngines"`
	Decoders        fact[[]*int]   `json:"decoders"`
	Encoders        fact[[]*int]   `json:"encoders"`
	JPEGEngines     fact[[]*int]   `json:"jpegEngines"`
	OFAEngines      fact[[]*int]   `json:"ofaEngines"`
}

func (f migFile) read(r *reader, totalMiB int64) *MIG {
	g, err := loadGeometry(r, need(r, "mig.geometry", f.Geometry))
	if err != nil {
		r.errs = append(r.errs, err)
		return nil
	}
	n := len(g.GPUInstances)
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
		m.ComputeProfiles[gi.Enum] = g.compute(gi.Slices, sms[i], sms[0])
	}
	slices.SortFunc(m.Profiles, func(a, b mig.Profile) int { return cmp.Compare(a.Enum, b.Enum) })
	r.errs = append(r.errs, checkMIG(r.subject, m)...)
	return m
}

// compute is what fits into a GPU instance with so many slices and SMs; unit is
// the number of SMs of the smallest GPU instance.
func (g geometryFile) compute(giSlices, giSMs, unit int) []ComputeProfile {
	var out []ComputeProfile
	for _, ci := range g.ComputeInstances {
		if ci.Slices > giSlices {
			continue
		}
		p := ComputeProfile{Enum: ci.Enum, ID: ci.ID, Slices: ci.Slices, MaxInstances: giSlices / ci.Slices, Multiprocessors: ci.Slices * unit}
		if ci.Slices == giSlices {
			p.Multiprocessors = giSMs
		}
		out = append(out, p)
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
	r.finish()
	parent.warnings = append(parent.warnings, r.warnings...)
	return g, errors.Join(r.errs...)
}

// column reads one figure for all n profiles.
func column[T any](r *reader, field string, f fact[[]*T], n int) []T {
	out := make([]T, n)
	values := need(r, field, f)
	if len(values) != n {
		r.fail(field, "has %d entries, the geometry has %d profiles", len(values), n)
		return out
	}
	for i, v := range values {
		if v == nil {
			r.fail(field, "entry %d is not known", i)
			continue
		}
		out[i] = *v
	}
	return out
}
