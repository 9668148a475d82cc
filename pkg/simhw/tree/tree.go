// Package tree writes the files that an NVIDIA driver has on a node, below a root
// of their own: libraries and nvidia-smi, device nodes, and what its kernel module
// shows in /proc and the kernel in /sys.
package tree

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

// Config is what the tree is made from.
type Config struct {
	// Root is the directory that stands for the driver root.
	Root string
	// Libraries has libnvidia-ml.so and libcuda.so as pkg/simhw/shim builds them.
	Libraries string
	// Executable is installed as nvidia-smi.
	Executable string
	Server     catalog.Server
	Majors     serve.Majors
	// ViewsChanged is called when device nodes have come or gone by which clients
	// see GPUs; it must not call the tree. May be nil.
	ViewsChanged func()
}

// Tree is the files of one node.
type Tree struct {
	Config
	migMinors string

	mu     sync.Mutex
	state  simhw.Snapshot
	faults map[string]placedFault
	// made is what is there; nil before the first Sync, which looks at the disk.
	made plan
}

// New makes no file yet.
func New(c Config) *Tree {
	return &Tree{Config: c, migMinors: migMinors(), faults: map[string]placedFault{}}
}

// Sync makes the files those of the state. The first time it goes by what is
// there, so that it also tidies up after a crash.
func (t *Tree) Sync(s simhw.Snapshot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = s
	return t.sync()
}

// sync makes what is planned, spoiled by the faults. What fails is tried again by
// the next one.
func (t *Tree) sync() error {
	want := t.plan(t.state)
	for path, f := range t.faults {
		f.spoil(want, path)
	}
	had, err := t.made, error(nil)
	if had == nil {
		if had, err = t.look(); err != nil {
			return fmt.Errorf("look at the files below %s: %w", t.Root, err)
		}
	}
	t.made = plan{}
	var errs []error
	for _, path := range unwanted(had, want) {
		if err := t.remove(path, want); err != nil {
			errs = append(errs, err)
			t.made[path] = had[path]
		}
	}
	for path, e := range want {
		if had[path] != e {
			if err := t.make(path, e); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		t.made[path] = e
	}
	if t.ViewsChanged != nil && !maps.Equal(had.views(), want.views()) {
		t.ViewsChanged()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("update files below %s: %w", t.Root, err)
	}
	return nil
}

func (t *Tree) path(parts ...string) string {
	return filepath.Join(append([]string{t.Root}, parts...)...)
}

// libraryDir is Debian's for this machine.
func libraryDir() string {
	if runtime.GOARCH == "arm64" {
		return "usr/lib/aarch64-linux-gnu"
	}
	return "usr/lib/x86_64-linux-gnu"
}

// LibraryPath is the library's place below the root.
func LibraryPath() string { return filepath.Join(libraryDir(), "libnvidia-ml.so.1") }
