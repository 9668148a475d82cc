package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// Every value that a kind may have is written as documented, and read back by
// whoever has the scheme.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"":                 `{"kind":"GPUConfig","apiVersion":"cleave.dev/v1alpha1"}`,
		"Default":          `{"kind":"GPUConfig","apiVersion":"cleave.dev/v1alpha1","computeMode":"Default"}`,
		"ExclusiveProcess": `{"kind":"GPUConfig","apiVersion":"cleave.dev/v1alpha1","computeMode":"ExclusiveProcess"}`,
		"Prohibited":       `{"kind":"GPUConfig","apiVersion":"cleave.dev/v1alpha1","computeMode":"Prohibited"}`,
	}
	for _, mode := range v1alpha1.ComputeModes() {
		if tests[string(mode)] == "" {
			t.Errorf("compute mode %s is not tested", mode)
		}
	}
	for mode, want := range tests {
		t.Run(mode, func(t *testing.T) {
			obj, err := scheme.New(v1alpha1.GroupVersion().WithKind(v1alpha1.GPUConfigKind))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(want), obj); err != nil {
				t.Fatal(err)
			}
			copied := obj.DeepCopyObject()
			if diff := cmp.Diff(obj, copied); diff != "" {
				t.Errorf("copy (-want +got):\n%s", diff)
			}
			if original := obj.(*v1alpha1.GPUConfig); original.ComputeMode != nil {
				*original.ComputeMode = "changed"
			}
			got, err := json.Marshal(copied)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
		})
	}
}
