package simnode

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

// built is what this process has built.
var built struct {
	sync.Mutex
	program, libraries string
}

// build makes the daemon and the libraries, once in a process; the Go tool and a
// hash of the sources make it quick if they are up to date.
func build(t testing.TB) (program, libraries string) {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.program != "" {
		return built.program, built.libraries
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "cleave", "simnode")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	mod := output(t, "go", "env", "GOMOD")
	if program, err = buildProgram(filepath.Dir(mod), cache); err != nil {
		t.Fatal(err)
	}
	if libraries, err = buildLibraries(filepath.Join(filepath.Dir(mod), "pkg", "simhw", "shim"), cache); err != nil {
		t.Fatal(err)
	}
	built.program, built.libraries = program, libraries
	return program, libraries
}

// buildProgram builds it like the test, with or without the race detector. Each
// checkout has its own, so that tests of two do not run each other's.
func buildProgram(module, cache string) (string, error) {
	program := filepath.Join(cache, fmt.Sprintf("cleave-simhw-%.8x", sha256.Sum256([]byte(module))))
	args := []string{"build"}
	if raceEnabled {
		program += "-race"
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "-o", program, "./cmd/cleave-simhw")...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cleave-simhw: %w: %s", err, out)
	}
	return program, nil
}

// buildLibraries keeps one directory for each content of the sources.
func buildLibraries(shim, cache string) (string, error) {
	hash := sha256.New()
	sources, err := filepath.Glob(filepath.Join(shim, "src", "*"))
	if err != nil {
		return "", err
	}
	for _, path := range append(sources, filepath.Join(shim, "build.sh")) {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(path), len(content), content)
	}
	dir := filepath.Join(cache, fmt.Sprintf("shim-%x", hash.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh := dir + ".new"
	if out, err := exec.Command(filepath.Join(shim, "build.sh"), fresh).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build libnvidia-ml.so.1: %w: %s", err, out)
	}
	return dir, os.Rename(fresh, dir)
}

// lock keeps other test processes from building at the same time.
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

func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("run %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}
