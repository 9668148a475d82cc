//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// TestDeviceMetadata reads in the container what KEP-5304 promises there, for a
// claim from a template and for one that the pod names.
func TestDeviceMetadata(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	named, err := e.Client.ResourceV1().ResourceClaims(e.namespace).Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "named"}, Spec: ask("gpu.cleave.dev"),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	direct := e.sleeper("direct", dgx, "")
	direct.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: mainClaim, ResourceClaimName: &named.Name}}
	tests := map[string]struct {
		pod  *corev1.Pod
		path string
	}{
		"template":     {e.sleeper("template", dgx, "mig"), metadata.ResourceClaimTemplateFilePath(cluster.DriverName, mainClaim, mainRequest)},
		"direct claim": {direct, metadata.ResourceClaimFilePath(cluster.DriverName, named.Name, mainRequest)},
	}
	for name, tc := range tests {
		e.run(name, func(e *env) {
			pod := e.start(tc.pod)
			e.checkMetadata(e.one(pod), e.in(pod, mainContainer, `cat "$1"`, tc.path))
		})
	}
}

func (e *env) checkMetadata(seen cluster.Seen, text string) {
	var got metadata.DeviceMetadata
	if err := devicemetadata.DecodeMetadataFromStream(json.NewDecoder(strings.NewReader(text)), &got); err != nil {
		e.t.Fatalf("decode: %v\n%s", err, text)
	}
	if len(got.Requests) != 1 || got.Requests[0].Name != mainRequest || len(got.Requests[0].Devices) != 1 {
		e.t.Fatalf("want one device of request %s:\n%s", mainRequest, text)
	}
	d := got.Requests[0].Devices[0]
	if d.Driver != cluster.DriverName || d.Name != seen.Device.Name {
		e.t.Errorf("device %s of driver %s, want %s of %s", d.Name, d.Driver, seen.Device.Name, cluster.DriverName)
	}
	want := seen.GPU.UUID
	if seen.MIG != nil {
		want = seen.MIG.UUID
	}
	if uuid := d.Attributes["uuid"].StringValue; uuid == nil || *uuid != want {
		e.t.Errorf("want the attribute uuid %s, as nvidia-smi lists it:\n%s", want, text)
	}
}
