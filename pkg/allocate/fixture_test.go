package allocate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/slices"
)

const driver = "cleave.dev"

var node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}

// published is what the plugin publishes for a server of the catalogue.
func published(t testing.TB, server string) []*resourceapi.ResourceSlice {
	t.Helper()
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := slices.Build(s.Node(), slices.Options{NodeName: node.Name, Partitions: true})
	if err != nil {
		t.Fatal(err)
	}
	return allocate.Published(driver, node.Name, resources)
}

// deviceClasses are like those that an administrator installs: one for whole
// GPUs, one for all MIG slices and one per profile.
func deviceClasses() []*resourceapi.DeviceClass {
	class := func(name, expression string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q && %s", driver, expression),
			}}}},
		}
	}
	profile := func(p string) string {
		return fmt.Sprintf("device.attributes[%[1]q].type == 'mig' && device.attributes[%[1]q].profile == %[2]q", driver, p)
	}
	return []*resourceapi.DeviceClass{
		class("gpu", fmt.Sprintf("device.attributes[%q].type == 'gpu'", driver)),
		class("mig", fmt.Sprintf("device.attributes[%q].type == 'mig'", driver)),
		class("1g", profile("1g.10gb")),
		class("3g", profile("3g.40gb")),
		class("7g", profile("7g.80gb")),
	}
}

func state(t testing.TB, in allocate.Input) *allocate.State {
	t.Helper()
	in.Classes = deviceClasses()
	if in.Features.Set().Len() == 0 {
		in.Features = allocate.DefaultFeatures()
	}
	s, err := allocate.New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// claim asks for count devices of a class in one request.
func claim(class string, count int64) *resourceapi.ResourceClaim {
	name := fmt.Sprintf("%d-of-%s", count, class)
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r",
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class,
				AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
				Count:           count,
			},
		}}}},
	}
}
