package profile_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/profile"
	"github.com/cleave-dra/cleave/pkg/slices"
)

const driver = "cleave.dev"

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// world is a cluster: what its nodes publish, and its classes.
type world struct {
	slices  []*resourceapi.ResourceSlice
	classes []*resourceapi.DeviceClass
}

func (w world) inventory() profile.Inventory { return profile.Summarize(driver, w.slices, w.classes) }

// cluster has one node of each of these servers of the catalogue.
func cluster(t testing.TB, opts slices.Options, servers ...string) world {
	t.Helper()
	w := world{classes: chartClasses()}
	for _, name := range servers {
		w.add(t, name, server(t, name), opts)
	}
	return w
}

func server(t testing.TB, name string) hardware.Node {
	t.Helper()
	s, _, err := catalog.LoadServer(name)
	if err != nil {
		t.Fatal(err)
	}
	node := s.Node()
	for i := range node.GPUs {
		node.GPUs[i].NVLink = &hardware.NVLinkFabric{Cluster: "00000000-0000-0000-0000-00000000d6c4", Clique: 1}
	}
	return node
}

// inMIGMode is a server whose GPUs are divided, for those whose mode needs a reset.
func inMIGMode(t testing.TB, name string) hardware.Node {
	t.Helper()
	node := server(t, name)
	for i := range node.GPUs {
		m := *node.GPUs[i].MIG
		m.Enabled = true
		node.GPUs[i].MIG = &m
	}
	return node
}

// add publishes a node as the plugin does.
func (w *world) add(t testing.TB, name string, node hardware.Node, opts slices.Options) {
	t.Helper()
	opts.NodeName, opts.Partitions, opts.Rails = name, true, hardware.Rails(node, nil)
	resources, err := slices.Build(node, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.slices = append(w.slices, allocate.Published(driver, name, resources)...)
}

// chartClasses are those of the chart with its default values.
func chartClasses() []*resourceapi.DeviceClass {
	is := func(kind string) string { return fmt.Sprintf("device.attributes[%q].type == %q", driver, kind) }
	conditions := map[string]string{"gpu": is("gpu"), "mig": is("mig"), "rdma": is("nic"), "gpu-nic": is("gpu-nic")}
	for class, name := range map[string]string{
		"1g.10gb": "1g.10gb", "1g.10gb.me": "1g.10gb+me", "1g.20gb": "1g.20gb", "2g.20gb": "2g.20gb",
		"3g.40gb": "3g.40gb", "4g.40gb": "4g.40gb", "7g.80gb": "7g.80gb",
	} {
		conditions["mig-"+class] = fmt.Sprintf("device.attributes[%q].?profile.orValue(\"\") == %q", driver, name)
	}
	var out []*resourceapi.DeviceClass
	for class, condition := range conditions {
		out = append(out, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class + "." + driver},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q && %s", driver, condition),
			}}}},
		})
	}
	return out
}

// spec reads groups and constraints as a user writes them.
func spec(t testing.TB, text string) v1alpha1.ClaimProfileSpec {
	t.Helper()
	var out v1alpha1.ClaimProfileSpec
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return out
}

func render(t testing.TB, text string, w world) profile.Claim {
	t.Helper()
	claim, err := profile.Render(spec(t, text), w.inventory(), driver)
	if err != nil {
		t.Fatalf("render %s: %v", text, err)
	}
	return claim
}

func golden(t *testing.T, name string, got any) {
	t.Helper()
	raw, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(raw)); diff != "" {
		t.Errorf("%s; if this is meant, run the test with -update (-want +got):\n%s", path, diff)
	}
}
