package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNeededTwice: informers pass objects that were transformed already, and what is
// kept of them must stay what it is.
func TestNeededTwice(t *testing.T) {
	l := liveSlices{driver: "cleave.dev"}
	for _, driver := range []string{"cleave.dev", "other.example"} {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "1"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Devices: []resourceapi.Device{{Name: "d"}},
		}}
		once, err := l.needed(s)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := l.needed(once)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Errorf("%s (-once +twice):\n%s", driver, diff)
		}
	}
}

// TestDigest: equal content gives equal digests, whatever the API server fills in,
// and any difference another one.
func TestDigest(t *testing.T) {
	device := func(memory string, taints ...resourceapi.DeviceTaint) []resourceapi.Device {
		return []resourceapi.Device{{
			Name: "d", Taints: taints,
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}},
		}}
	}
	now := metav1.Now()
	taint := resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	dated := taint
	dated.TimeAdded = &now
	counters := []resourceapi.CounterSet{{Name: "c"}}
	tests := map[string]struct {
		a, b  []resourceapi.Device
		c     []resourceapi.CounterSet
		equal bool
	}{
		"same":                     {a: device("1Gi"), b: device("1Gi"), equal: true},
		"time of a taint":          {a: device("1Gi", taint), b: device("1Gi", dated), equal: true},
		"the same size in MiB":     {a: device("1Gi"), b: device("1024Mi"), equal: true},
		"another size":             {a: device("1Gi"), b: device("2Gi")},
		"a taint more":             {a: device("1Gi"), b: device("1Gi", taint)},
		"a counter set":            {a: device("1Gi"), b: device("1Gi"), c: counters},
		"no devices, nil or empty": {b: []resourceapi.Device{}, equal: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := digest(tc.a, nil) == digest(tc.b, tc.c); got != tc.equal {
				t.Errorf("equal: %v, want %v", got, tc.equal)
			}
		})
	}
}
