package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/progress"
)

func TestKey(t *testing.T) {
	words := func(words ...string) string { return NewKey(words...).String() }
	tests := map[string]struct {
		a, b  string
		equal bool
	}{
		"the same":         {a: words("x", "y"), b: words("x", "y"), equal: true},
		"order matters":    {a: words("x", "y"), b: words("y", "x")},
		"borders matter":   {a: words("xy", "z"), b: words("x", "yz")},
		"emptiness counts": {a: words("x"), b: words("x", "")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if (tc.a == tc.b) != tc.equal {
				t.Errorf("%s and %s: equal = %v, want %v", tc.a, tc.b, tc.a == tc.b, tc.equal)
			}
		})
	}
}

func TestKeyFiles(t *testing.T) {
	key := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		k := NewKey()
		if err := k.Files(dir, GoSources); err != nil {
			t.Fatal(err)
		}
		return k.String()
	}
	base := key(map[string]string{"go.mod": "m", "a/a.go": "a"})
	tests := map[string]struct {
		files map[string]string
		equal bool
	}{
		"the folder itself does not count": {files: map[string]string{"go.mod": "m", "a/a.go": "a"}, equal: true},
		"tests and notes do not count": {
			files: map[string]string{"go.mod": "m", "a/a.go": "a", "a/a_test.go": "t", "README.md": "r"}, equal: true,
		},
		"content counts": {files: map[string]string{"go.mod": "m", "a/a.go": "b"}},
		"names count":    {files: map[string]string{"go.mod": "m", "b/a.go": "a"}},
		"sums count":     {files: map[string]string{"go.mod": "m", "a/a.go": "a", "go.sum": "s"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := key(tc.files); (got == base) != tc.equal {
				t.Errorf("equal = %v, want %v", got == base, tc.equal)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	s := Store{Root: t.TempDir()}
	fill := func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644) }
	broken := errors.New("broken")

	if _, err := s.Build(t.Context(), "kind", "k", func(dir string) error { return errors.Join(fill(dir), broken) }); !errors.Is(err, broken) {
		t.Errorf("a failed build returns %v, want its error", err)
	}
	if s.Has("kind", "k") {
		t.Error("a failed build left an entry")
	}
	dir, err := s.Build(t.Context(), "kind", "k", fill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
	never := func(string) error { t.Error("a complete entry was built again"); return nil }
	if _, err := s.Build(t.Context(), "kind", "k", never); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(s.Path("tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("unfinished work is left: %v %v", left, err)
	}
}

func TestSweep(t *testing.T) {
	s := Store{Root: t.TempDir()}
	if err := s.Sweep(); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	temp, err := s.Temp("dead")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead run left is still there: %v", err)
	}
}

func TestLock(t *testing.T) {
	s := Store{Root: t.TempDir()}
	var out bytes.Buffer
	log := progress.New(&out)
	unlock, err := s.Lock(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock returns %v, want to wait until the deadline", err)
	}
	if !bytes.Contains(out.Bytes(), []byte("waiting for another run")) {
		t.Errorf("the wait was silent: %q", out.String())
	}
	unlock()
	if unlock, err = s.Lock(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	unlock()
}
