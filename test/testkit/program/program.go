// Package program builds the programs of this module for tests that run them.
package program

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// built are the programs that this process has built, by name.
var built struct {
	sync.Mutex
	paths map[string]string
}

// Build makes a program below cmd and returns its path, with or without the race
// detector like the test. It is made once in a process; the Go tool makes it quick if it
// is up to date. Each checkout has its own, so that tests of two do not run each other's.
func Build(t testing.TB, name string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path, ok := built.paths[name]; ok {
		return path
	}
	dir, unlock := Cache(t)
	defer unlock()
	module := Module(t)
	path := filepath.Join(dir, fmt.Sprintf("%s-%.8x", name, sha256.Sum256([]byte(module))))
	args := []string{"build"}
	if raceEnabled {
		path += "-race"
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "-o", path, "./cmd/"+name)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", name, err, out)
	}
	if built.paths == nil {
		built.paths = map[string]string{}
	}
	built.paths[name] = path
	return path
}

// Cache is the directory that keeps what tests have built. No other process of tests
// builds until unlock is called.
func Cache(t testing.TB) (dir string, unlock func()) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir = filepath.Join(cache, "cleave", "simnode")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err = lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, unlock
}

// Module is the root directory of this module.
func Module(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("run go env: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return func() { f.Close() }, err
		}
	}
}
