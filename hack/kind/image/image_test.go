package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequiredIn(t *testing.T) {
	const gomod = "module m\n\nrequire k8s.io/kubernetes v1.37.2\n\nrequire (\n\ta.b/c v0.1.0 // indirect\n)\n\nreplace k8s.io/api => k8s.io/api v0.37.2\n"
	tests := map[string]struct{ module, want string }{
		"on one line":  {module: "k8s.io/kubernetes", want: "v1.37.2"},
		"in a block":   {module: "a.b/c", want: "v0.1.0"},
		"not required": {module: "k8s.io/api"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := requiredIn(gomod, tc.module); got != tc.want || ok != (tc.want != "") {
				t.Errorf("requiredIn(%s) = %q, %v, want %q", tc.module, got, ok, tc.want)
			}
		})
	}
}

func TestByName(t *testing.T) {
	got := byName("registry.k8s.io/etcd:3.7.0-0\nregistry.k8s.io/coredns/coredns:v1.14.6\n")
	want := map[string]string{
		"coredns": "registry.k8s.io/coredns/coredns:v1.14.6",
		"etcd":    "registry.k8s.io/etcd:3.7.0-0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutOOMScore(t *testing.T) {
	got := withoutOOMScore("[Service]\nOOMScoreAdjust=-999\nTasksMax=infinity\n")
	if want := "[Service]\nTasksMax=infinity\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/lib/x"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"lib": "usr/lib", "usr/lib/x/a.so.1": "a.so.1.2", "usr/lib/abs": "/usr/lib/x/a.so.1", "usr/lib/loop": "/usr/lib/loop",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "usr/lib/x/a.so.1.2"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path string
		ok   bool
	}{
		"through a linked folder": {path: "/lib/x/a.so.1", ok: true},
		"an absolute link":        {path: "/usr/lib/abs", ok: true},
		"a real file":             {path: "/usr/lib/x/a.so.1.2", ok: true},
		"a loop":                  {path: "/usr/lib/loop"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := resolve(root, tc.path)
			if (err == nil) != tc.ok {
				t.Fatalf("resolve() = %v, want ok = %v", err, tc.ok)
			}
			if want := filepath.Join(root, "usr/lib/x/a.so.1.2"); tc.ok && got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// members reads the names of a tar file in order, and its small files.
func members(t *testing.T, path string) (names []string, texts map[string]string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	texts = map[string]string{}
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		texts[header.Name] = string(text)
	}
}

func TestLayer(t *testing.T) {
	l := newLayer()
	l.text("etc/b", "b")
	l.text("/etc/a", "a")
	l.link("usr/bin/c", "/etc/a")
	path := filepath.Join(t.TempDir(), "layer.tar")
	if err := l.write(path); err != nil {
		t.Fatal(err)
	}
	names, texts := members(t, path)
	if diff := cmp.Diff([]string{"etc/", "etc/a", "etc/b", "usr/", "usr/bin/", "usr/bin/c"}, names); diff != "" {
		t.Error(diff)
	}
	if texts["etc/a"] != "a" {
		t.Errorf("etc/a = %q", texts["etc/a"])
	}
}

func TestWriteArchive(t *testing.T) {
	dir := t.TempDir()
	shared := filepath.Join(dir, "layer.tar")
	if err := newLayer().write(shared); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "image.tar")
	pictures := []picture{
		{ref: "a:1", layers: []string{shared}},
		{ref: "b:2", layers: []string{shared}, config: runConfig{StopSignal: "SIGRTMIN+3"}},
	}
	if err := writeArchive(path, pictures); err != nil {
		t.Fatal(err)
	}
	names, texts := members(t, path)
	if len(names) != 4 { // one layer, two configs, the manifest
		t.Errorf("the archive has %q", names)
	}
	var manifest []manifestEntry
	if err := json.Unmarshal([]byte(texts["manifest.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 2 || manifest[0].RepoTags[0] != "a:1" || manifest[0].Layers[0] != manifest[1].Layers[0] {
		t.Errorf("unexpected manifest: %+v", manifest)
	}
	var config imageConfig
	if err := json.Unmarshal([]byte(texts[manifest[1].Config]), &config); err != nil {
		t.Fatal(err)
	}
	if config.Config.StopSignal != "SIGRTMIN+3" || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("unexpected config: %+v", config)
	}
}
