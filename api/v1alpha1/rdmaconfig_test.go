package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// RDMAConfig is written as documented, and read back by whoever has the scheme.
func TestSchemeRDMAConfig(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"kind":"RDMAConfig","apiVersion":"cleave.dev/v1alpha1"}`,
		`{"kind":"RDMAConfig","apiVersion":"cleave.dev/v1alpha1","issm":true,"nccl":true}`,
	} {
		obj, err := scheme.New(v1alpha1.GroupVersion().WithKind(v1alpha1.RDMAConfigKind))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), obj); err != nil {
			t.Fatal(err)
		}
		copied := obj.DeepCopyObject()
		*obj.(*v1alpha1.RDMAConfig) = v1alpha1.RDMAConfig{}
		if got, err := json.Marshal(copied); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
