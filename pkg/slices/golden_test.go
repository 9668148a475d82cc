package slices_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/slices"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// TestBuildGolden compares all that is published for a small server.
func TestBuildGolden(t *testing.T) {
	tests := map[string]slices.Options{
		"mixed":            {NodeName: "worker-1", Partitions: true},
		"mixed-whole-only": {NodeName: "worker-1"},
	}
	for name, opts := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.Marshal(build(t, server(t, "mixed"), opts))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yaml", string(raw))
		})
	}
}

// TestBuildOrderGolden compares the order of a large server's devices, which is
// policy: the scheduler takes the first that fits. One line per slice, then one
// per device or counter set.
func TestBuildOrderGolden(t *testing.T) {
	golden(t, "dgx-h100.order", order(pool(t, build(t, server(t, "dgx-h100"), slices.Options{NodeName: "worker-1", Partitions: true}))))
}

// order lists the names.
func order(p resourceslice.Pool) string {
	return render(p, func(d resourceapi.Device) string { return d.Name })
}

// render has one line per slice, then one per counter set, and one per device for
// which describe says something.
func render(p resourceslice.Pool, describe func(resourceapi.Device) string) string {
	var out strings.Builder
	for i, s := range p.Slices {
		fmt.Fprintf(&out, "slice %d: %d counter sets, %d devices\n", i, len(s.SharedCounters), len(s.Devices))
		for _, set := range s.SharedCounters {
			fmt.Fprintf(&out, "  %s\n", set.Name)
		}
		for _, d := range s.Devices {
			if line := describe(d); line != "" {
				fmt.Fprintf(&out, "  %s\n", line)
			}
		}
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
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
		t.Errorf("%s; if this is meant, run the test with -update (-want +got):\n%s", path, diff)
	}
}

func server(t *testing.T, name string) hardware.Node {
	t.Helper()
	s, _, err := catalog.LoadServer(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Node()
}

func build(t *testing.T, node hardware.Node, opts slices.Options) resourceslice.DriverResources {
	t.Helper()
	got, err := slices.Build(node, opts)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// pool is the pool of the node's GPUs.
func pool(t *testing.T, resources resourceslice.DriverResources) resourceslice.Pool {
	t.Helper()
	for _, name := range []string{slices.PoolName("worker-1"), slices.PoolName("")} {
		if p, ok := resources.Pools[name]; ok {
			return p
		}
	}
	t.Fatalf("no pool of GPUs among %d pools", len(resources.Pools))
	panic("unreachable")
}
