package admission

import (
	"maps"
	stdslices "slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// TestNaturesAreWhatIsPublished: every device of every known server has what its type
// always has, and nothing that its type never has.
func TestNaturesAreWhatIsPublished(t *testing.T) {
	seen := map[params.DeviceType]int{}
	for _, name := range catalog.Servers() {
		server, _, err := catalog.LoadServer(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, pairs := range []bool{false, true} {
			resources, err := slices.Build(server.Node(), slices.Options{NodeName: "n", Partitions: true, Pairs: pairs})
			if err != nil {
				t.Fatal(err)
			}
			for _, pool := range resources.Pools {
				for _, slice := range pool.Slices {
					for _, device := range slice.Devices {
						kind := params.DeviceType(*device.Attributes[slices.AttributeType].StringValue)
						seen[kind]++
						i := stdslices.IndexFunc(natures(), func(n nature) bool { return n.kind == kind })
						if i < 0 {
							t.Fatalf("%s: device %s is of type %q, which nobody knows", name, device.Name, kind)
						}
						n := natures()[i]
						attributes := stdslices.Collect(maps.Keys(device.Attributes))
						attributes = stdslices.DeleteFunc(attributes, func(a resourceapi.QualifiedName) bool { return a == slices.AttributeType })
						compare(t, name+" "+device.Name, attributes, n.always.attributes, n.sometimes.attributes)
						compare(t, name+" "+device.Name, stdslices.Collect(maps.Keys(device.Capacity)), n.always.capacity, n.sometimes.capacity)
					}
				}
			}
		}
	}
	for _, kind := range params.DeviceTypes() {
		if seen[kind] == 0 {
			t.Errorf("no server has a device of type %s: the test shows nothing about it", kind)
		}
	}
}

func compare(t *testing.T, device string, got, always, sometimes []resourceapi.QualifiedName) {
	t.Helper()
	for _, name := range always {
		if !stdslices.Contains(got, name) {
			t.Errorf("%s lacks %s, which is said to be always there", device, name)
		}
	}
	for _, name := range got {
		if !stdslices.Contains(always, name) && !stdslices.Contains(sometimes, name) {
			t.Errorf("%s has %s, which is said never to be there", device, name)
		}
	}
}
