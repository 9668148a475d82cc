package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestDefinitions: the definitions are those that were generated, an upgrade brings new
// ones, and they stay on uninstall, since all objects would go with them.
func TestDefinitions(t *testing.T) {
	for name, keep := range map[string]string{"definitions": "keep", "definitions go": ""} {
		t.Run(name, func(t *testing.T) {
			got := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
			for _, crd := range pick[*apiextensionsv1.CustomResourceDefinition](render(t, combinations[name]...)) {
				got[crd.Name] = crd.Spec
				if policy := crd.Annotations["helm.sh/resource-policy"]; policy != keep {
					t.Errorf("%s: resource policy %q, want %q", crd.Name, policy, keep)
				}
				if crd.Labels["app.kubernetes.io/managed-by"] != "Helm" {
					t.Errorf("%s: labels %v", crd.Name, crd.Labels)
				}
			}
			if diff := cmp.Diff(generated(t), got); diff != "" {
				t.Errorf("definitions (-want +got):\n%s", diff)
			}
		})
	}
	if n := len(pick[*apiextensionsv1.CustomResourceDefinition](render(t))); n != 0 {
		t.Errorf("%d definitions although nothing reads them", n)
	}
}

func generated(t *testing.T) map[string]apiextensionsv1.CustomResourceDefinitionSpec {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("cleave", "files", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	out := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			t.Fatal(err)
		}
		out[crd.Name] = crd.Spec
	}
	return out
}
