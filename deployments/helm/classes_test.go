package helm

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// matches says which classes select a device. An error in a selector is a failure:
// it would stop the pod on every node, not only here.
func matches(t *testing.T, classes []*resourceapi.DeviceClass, device cel.Device) []string {
	t.Helper()
	var names []string
	for _, class := range classes {
		if len(class.Spec.Selectors) != 1 {
			t.Fatalf("class %s has %d selectors", class.Name, len(class.Spec.Selectors))
		}
		selector := cel.GetCompiler(cel.Features{}).CompileCELExpression(class.Spec.Selectors[0].CEL.Expression, cel.Options{})
		if selector.Error != nil {
			t.Fatalf("class %s: compile %s: %v", class.Name, class.Spec.Selectors[0].CEL.Expression, selector.Error)
		}
		ok, _, err := selector.DeviceMatches(t.Context(), device)
		if err != nil {
			t.Errorf("class %s: %v", class.Name, err)
		}
		if ok {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestClassesSelect(t *testing.T) {
	l40s := attributes{"type": text("gpu"), "productName": text("NVIDIA L40S")}
	slice := func(profile string) attributes { return attributes{"type": text("mig"), "profile": text(profile)} }
	tests := map[string]struct {
		args   []string
		device cel.Device
		want   []string
	}{
		"a GPU, which has no profile": {
			device: cel.Device{Driver: "cleave.dev", Attributes: l40s},
			want:   []string{"gpu.cleave.dev"},
		},
		"a slice": {
			device: cel.Device{Driver: "cleave.dev", Attributes: slice("1g.10gb")},
			want:   []string{"mig-1g.10gb.cleave.dev", "mig.cleave.dev"},
		},
		"a slice with media engines": {
			device: cel.Device{Driver: "cleave.dev", Attributes: slice("1g.10gb+me")},
			want:   []string{"mig-1g.10gb.me.cleave.dev", "mig.cleave.dev"},
		},
		"a profile without a class": {
			device: cel.Device{Driver: "cleave.dev", Attributes: slice("1g.18gb")},
			want:   []string{"mig.cleave.dev"},
		},
		"a class without media engines": {
			args:   []string{"--set", "mig.profiles={1g.24gb-me,1g.24gb+me.all}"},
			device: cel.Device{Driver: "cleave.dev", Attributes: slice("1g.24gb-me")},
			want:   []string{"mig-1g.24gb.no-me.cleave.dev", "mig.cleave.dev"},
		},
		"a network card": {
			device: cel.Device{Driver: "cleave.dev", Attributes: attributes{"type": text("nic")}},
			want:   []string{"rdma.cleave.dev"},
		},
		"a GPU and a network card": {
			device: cel.Device{Driver: "cleave.dev", Attributes: attributes{"type": text("gpu-nic")}},
			want:   []string{"gpu-nic.cleave.dev"},
		},
		"another driver's GPU with the same attributes": {
			device: cel.Device{Driver: "gpu.nvidia.com", Attributes: slice("1g.10gb")},
		},
		"another driver's device without attributes": {
			device: cel.Device{Driver: "gpu.nvidia.com"},
		},
		"our driver under another name": {
			args:   []string{"--set", "driverName=gpu.example.com"},
			device: cel.Device{Driver: "gpu.example.com", Attributes: slice("7g.80gb")},
			want:   []string{"mig-7g.80gb.gpu.example.com", "mig.gpu.example.com"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := matches(t, pick[*resourceapi.DeviceClass](render(t, tc.args...)), tc.device)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExtendedResources(t *testing.T) {
	got := map[string]string{}
	for _, class := range pick[*resourceapi.DeviceClass](render(t, combinations["extended resources"]...)) {
		if name := class.Spec.ExtendedResourceName; name != nil {
			got[class.Name] = *name
		}
	}
	want := map[string]string{"gpu.cleave.dev": "nvidia.com/gpu", "mig-1g.10gb.cleave.dev": "nvidia.com/mig-1g.10gb"}
	if !maps.Equal(want, got) {
		t.Errorf("extended resources (-want +got):\n%s", cmp.Diff(want, got))
	}
	for _, class := range pick[*resourceapi.DeviceClass](render(t)) {
		if class.Spec.ExtendedResourceName != nil {
			t.Errorf("class %s stands for %s although nobody asked", class.Name, *class.Spec.ExtendedResourceName)
		}
	}
}

// Without classes nothing can be allocated, so another release can take them over
// before this one goes.
func TestClassesStayOnRequest(t *testing.T) {
	for _, class := range pick[*resourceapi.DeviceClass](render(t, combinations["classes stay"]...)) {
		if class.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("class %s would go with the release", class.Name)
		}
	}
	if n := len(pick[*resourceapi.DeviceClass](render(t, combinations["no classes"]...))); n != 0 {
		t.Errorf("%d classes although told to make none", n)
	}
}
