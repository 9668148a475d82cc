package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unknown is an entry that is there and equals none that is wanted.
const unknown kind = -1

// look finds everything in the managed directories, and libraries of any version,
// without looking into it.
func (t *Tree) look() (plan, error) {
	p := plan{}
	for _, dir := range managed() {
		err := filepath.WalkDir(t.path(dir), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(t.Root, path)
			if err == nil && !d.IsDir() {
				p[name] = entry{kind: unknown}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range libraryNames() {
		versioned, err := filepath.Glob(t.path(libraryDir(), name+".*"))
		if err != nil {
			return nil, err
		}
		for _, path := range versioned {
			p[filepath.Join(libraryDir(), filepath.Base(path))] = entry{kind: unknown}
		}
	}
	return p, nil
}

// unwanted are the paths that are there and should not be, or that stand in the
// way of something of another kind; what is deepest comes first.
func unwanted(had, want plan) []string {
	var out []string
	for path, old := range had {
		if e, ok := want[path]; !ok || old.kind == directory && e.kind != directory {
			out = append(out, path)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(b, a) })
	return out
}

// remove takes a path away, and the directories that it leaves empty, unless they
// are wanted.
func (t *Tree) remove(path string, want plan) error {
	if err := os.RemoveAll(t.path(path)); err != nil {
		return err
	}
	for dir := filepath.Dir(path); strings.Contains(dir, "/"); dir = filepath.Dir(dir) {
		if _, ok := want[dir]; ok || os.Remove(t.path(dir)) != nil {
			return nil // wanted or not empty
		}
	}
	return nil
}

func (t *Tree) make(path string, e entry) error {
	full := t.path(path)
	if e.kind != directory {
		// What a fault has put there.
		if info, err := os.Lstat(full); err == nil && info.IsDir() {
			if err := os.RemoveAll(full); err != nil {
				return err
			}
		}
	}
	switch e.kind {
	case file:
		return writeFile(full, []byte(e.text), e.mode)
	case copied:
		return copyFile(e.text, full, e.mode)
	case symlink:
		return link(e.text, full)
	case node:
		return makeNode(full, e.major, e.minor, e.mode)
	case directory:
		return makeDirectory(full, e.mode)
	}
	return fmt.Errorf("make %s: kind %d is not known", path, e.kind)
}
