package simnode

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cleave-dra/cleave/test/testkit/program"
)

// built is where this process has built the libraries.
var built struct {
	sync.Mutex
	libraries string
}

// build makes the daemon and the libraries, once in a process; a hash of the sources
// makes it quick if the libraries are up to date.
func build(t testing.TB) (daemon, libraries string) {
	t.Helper()
	daemon = program.Build(t, "cleave-simhw")
	built.Lock()
	defer built.Unlock()
	if built.libraries != "" {
		return daemon, built.libraries
	}
	cache, unlock := program.Cache(t)
	defer unlock()
	libraries, err := buildLibraries(filepath.Join(program.Module(t), "pkg", "simhw", "shim"), cache)
	if err != nil {
		t.Fatal(err)
	}
	built.libraries = libraries
	return daemon, libraries
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
