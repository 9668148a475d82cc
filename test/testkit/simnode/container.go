package simnode

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// Container is a root with the library, the socket and the device nodes that a
// container would have. Programs see it if they load its library, as SMI does; it
// cannot be loaded into the test process (see Start).
type Container struct {
	Root, Library, SMI string
}

// Container makes a root with some of the node's device nodes, named by their
// paths below dev ("nvidia0", "nvidia-caps/nvidia-cap1").
func (n *Node) Container(t testing.TB, devices ...string) Container {
	t.Helper()
	root, err := os.MkdirTemp("", "container")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	c := Container{Root: root, Library: filepath.Join(root, tree.LibraryPath()), SMI: filepath.Join(root, "usr/bin/nvidia-smi")}
	err = errors.Join(
		copyFile(n.Library, c.Library),
		copyFile(n.SMI, c.SMI),
		os.MkdirAll(filepath.Join(root, "run/nvidia-persistenced"), 0o755),
		os.Symlink(filepath.Join(n.Root, "run/nvidia-persistenced/socket"), filepath.Join(root, "run/nvidia-persistenced/socket")),
	)
	for _, d := range devices {
		err = errors.Join(err, copyNode(filepath.Join(n.Root, "dev", d), filepath.Join(root, "dev", d)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

func copyNode(from, to string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(from, &st); err != nil {
		return &os.PathError{Op: "stat", Path: from, Err: err}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return syscall.Mknod(to, st.Mode, int(st.Rdev))
}
