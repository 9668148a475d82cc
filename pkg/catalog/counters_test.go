package catalog

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/mig"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// columns are the fields of a model's file that counters come from; all others
// come from its geometry.
var columns = map[string]string{
	mig.CounterMemory:          "mig.memoryMiB",
	mig.CounterMultiprocessors: "mig.multiprocessors",
	mig.CounterCopyEngines:     "mig.copyEngines",
	mig.CounterDecoders:        "mig.decoders",
	mig.CounterEncoders:        "mig.encoders",
	mig.CounterJPEGEngines:     "mig.jpegEngines",
	mig.CounterOFAEngines:      "mig.ofaEngines",
}

// TestCountersGolden compares what every model counts in all and per profile. A
// "~" marks values that a rule infers; a line with nothing else is left out, so
// that no comparison rests on rules alone.
func TestCountersGolden(t *testing.T) {
	for name := range partitioned(t) {
		t.Run(name, func(t *testing.T) {
			got := goldenCounters(t, name)
			path := filepath.Join("testdata", name+".counters")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got); write it anew with -update:\n%s", path, diff)
			}
		})
	}
}

func goldenCounters(t *testing.T, name string) string {
	t.Helper()
	m, warnings, err := LoadModel(name)
	if err != nil {
		t.Fatal(err)
	}
	inferred := map[string]bool{}
	for _, w := range warnings {
		inferred[w.Field] = true
		if column, _, entry := strings.Cut(w.Field, "["); entry {
			inferred[column+" in part"] = true
		}
	}
	c := mig.NewCounters(m.MIG.Profiles)
	out := goldenLine("total", c.Total, func(column string) bool { return inferred[column] || inferred[column+" in part"] })
	rows := rowsOf(t, name)
	for _, p := range m.MIG.Profiles {
		row := fmt.Sprintf("[%d]", rows[p.Enum])
		line := goldenLine(p.Name, c.Of(p, p.Placements[0]), func(column string) bool { return inferred[column] || inferred[column+row] })
		out += line
	}
	return out
}

// rowsOf has the place of each profile, by enum, in the columns of a model's file.
func rowsOf(t *testing.T, name string) map[int]int {
	t.Helper()
	var f modelFile
	if err := load("models", name, &f); err != nil {
		t.Fatal(err)
	}
	var g geometryFile
	if err := load("geometries", *f.MIG.Geometry.Value, &g); err != nil {
		t.Fatal(err)
	}
	rows := map[int]int{}
	for i, gi := range g.GPUInstances {
		rows[gi.Enum] = i
	}
	return rows
}

func goldenLine(title string, counters map[string]int64, inferred func(column string) bool) string {
	var values []string
	known, slots := false, int64(0)
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if strings.HasPrefix(name, "memory-slice-") {
			slots += counters[name]
			continue
		}
		value := fmt.Sprint(counters[name])
		if name == mig.CounterMemory {
			value = fmt.Sprintf("%dMi", counters[name]>>20)
		}
		mark := "~"
		if !inferred(columnOf(name)) {
			mark, known = "", true
		}
		values = append(values, name+"="+value+mark)
	}
	mark := "~"
	if !inferred(columnOf("")) {
		mark, known = "", true
	}
	values = append(values, fmt.Sprintf("memory-slices=%d%s", slots, mark))
	if !known {
		return title + ": all of it is inferred\n"
	}
	return title + ": " + strings.Join(values, " ") + "\n"
}

func columnOf(counter string) string {
	if column := columns[counter]; column != "" {
		return column
	}
	return "mig.geometry"
}

func TestCountersWithinTheAPI(t *testing.T) {
	for name, m := range partitioned(t) {
		t.Run(name, func(t *testing.T) {
			c := mig.NewCounters(m.MIG.Profiles)
			// The whole GPU consumes everything.
			limit := min(resourceapi.ResourceSliceMaxCountersPerCounterSet, resourceapi.ResourceSliceMaxCountersPerDeviceCounterConsumption)
			if n := len(c.Total); n > limit {
				t.Errorf("%d counters, the API takes %d", n, limit)
			}
			for _, p := range m.MIG.Profiles {
				for _, at := range p.Placements {
					for counter, n := range c.Of(p, at) {
						if n < 1 || n > c.Total[counter] {
							t.Errorf("%s at %d takes %d of %s, the GPU has %d", p.Name, at.Start, n, counter, c.Total[counter])
						}
					}
				}
			}
		})
	}
}

// TestDevicesOfAGPU has how many devices a GPU is published as: itself, and each
// profile at each placement.
func TestDevicesOfAGPU(t *testing.T) {
	want := map[string]int{}
	for name := range profileNames {
		want[name] = 1 + 25
	}
	want["a30-24gb"] = 1 + 13
	want["rtx-pro-6000-blackwell"] = 1 + 30
	got := map[string]int{}
	for name, m := range partitioned(t) {
		got[name] = 1
		for _, p := range m.MIG.Profiles {
			got[name] += len(p.Placements)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}
