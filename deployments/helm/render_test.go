// Package helm tests the chart with the real helm and the real API types.
package helm

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

var update = flag.Bool("update", false, "write the golden files")

// The release as the tests install it.
const (
	release   = "gpus"
	namespace = "cleave-system"
)

// buildHelm compiles the helm that the cluster is installed with, from its pinned
// module. Where it is up to date, this takes a second.
var buildHelm = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for helm: %w", err)
	}
	binary := filepath.Join(cache, "cleave", "chart-test", "helm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "helm.sh/helm/v4/cmd/helm")
	build.Dir = filepath.Join("..", "..", "hack", "kind", "image", "helm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return binary, nil
})

// template runs `helm template` with more arguments (--set, --values).
func template(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	binary, err := buildHelm()
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Join(args, "\x00")
	if out, ok := rendered.Load(key); ok {
		return out.([]byte), nil
	}
	args = append([]string{"template", release, "cleave", "--namespace", namespace, "--kube-version", "1.37.2"}, args...)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	rendered.Store(key, stdout.Bytes())
	return stdout.Bytes(), nil
}

// rendered keeps what was templated, by arguments: several tests look at the same.
var rendered sync.Map

// render templates the chart and decodes it as strictly as the API server: a field
// that the API does not know is an error.
func render(t *testing.T, args ...string) []runtime.Object {
	t.Helper()
	out, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		document = strings.TrimPrefix(document, "---\n")
		if strings.TrimSpace(document) == "" {
			continue
		}
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("decode what helm template %s printed: %v\n%s", strings.Join(args, " "), err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// pick selects the objects of one type.
func pick[T runtime.Object](objects []runtime.Object) []T {
	var picked []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			picked = append(picked, o)
		}
	}
	return picked
}

// only is the sole object of its type.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	picked := pick[T](objects)
	if len(picked) != 1 {
		t.Fatalf("the chart rendered %d objects of type %T, want 1", len(picked), *new(T))
	}
	return picked[0]
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), run the test with -update if that is meant:\n%s", path, diff)
	}
}
