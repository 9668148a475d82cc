package tree

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Fault is what is wrong with one path of the tree; exactly one field is set.
type Fault struct {
	// Missing takes the path away, with all below it.
	Missing bool `json:"missing,omitempty"`
	// Content is what the file has instead; it may be empty.
	Content *string `json:"content,omitempty"`
	// Dangling makes it a link to nowhere.
	Dangling bool `json:"dangling,omitempty"`
	// Unreadable puts a directory in its place, which not even root can read as a
	// file.
	Unreadable bool `json:"unreadable,omitempty"`
	// Without takes the lines away that have this text, Twice doubles them.
	Without string `json:"without,omitempty"`
	Twice   string `json:"twice,omitempty"`
}

// placedFault is a fault, and what ends it by itself.
type placedFault struct {
	Fault
	end *time.Timer
}

// SetFault spoils a path below the root until it is cleared, or for a time if
// that is not 0, as for something that comes late. A path through
// a link, as below sys/bus/pci/devices or sys/class, means what the link leads to. It fails if there is no such path.
func (t *Tree) SetFault(path string, f Fault, lasts time.Duration) error {
	if f.count() != 1 {
		return errors.New("a fault of a file needs exactly one of missing, content, dangling, unreadable, without and twice")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.plan(t.state)
	path = want.resolve(path)
	if _, there := want[path]; !there && (!f.Missing || len(want.below(path)) == 0) {
		return fmt.Errorf("there is no %s below %s; paths are those of the driver root, for example dev/nvidia0, proc/devices, %s/ADDRESS/numa_node or sys/class/infiniband/mlx5_0/ports/1/state",
			path, t.Root, links)
	}
	t.forget(path)
	placed := placedFault{Fault: f}
	if lasts > 0 {
		placed.end = time.AfterFunc(lasts, func() { _ = t.ClearFault(path) })
	}
	t.faults[path] = placed
	return t.sync()
}

// ClearFault makes a path right again; "" means all.
func (t *Tree) ClearFault(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if path == "" {
		for path := range t.faults {
			t.forget(path)
		}
		return t.sync()
	}
	path = t.plan(t.state).resolve(path)
	if _, ok := t.faults[path]; !ok {
		return fmt.Errorf("nothing is wrong with %s: faults are at %q", path, slices.Sorted(maps.Keys(t.faults)))
	}
	t.forget(path)
	return t.sync()
}

func (t *Tree) forget(path string) {
	if f, ok := t.faults[path]; ok && f.end != nil {
		f.end.Stop()
	}
	delete(t.faults, path)
}

// Faults are all by path.
func (t *Tree) Faults() map[string]Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]Fault{}
	for path, f := range t.faults {
		out[path] = f.Fault
	}
	return out
}

func (f Fault) count() int {
	n := 0
	for _, set := range []bool{f.Missing, f.Content != nil, f.Dangling, f.Unreadable, f.Without != "", f.Twice != ""} {
		if set {
			n++
		}
	}
	return n
}

// resolve follows the links on the way to a path, but not the path itself.
func (p plan) resolve(path string) string {
	path = filepath.Clean(strings.TrimPrefix(path, "/"))
	// The tree's own links lead into directories without links.
	for end, c := range path {
		if c != '/' {
			continue
		}
		if e, ok := p[path[:end]]; ok && e.kind == symlink {
			return p.resolve(filepath.Join(filepath.Dir(path[:end]), e.text, path[end:]))
		}
	}
	return path
}

// below are the paths within a directory.
func (p plan) below(dir string) []string {
	var out []string
	for path := range p {
		if strings.HasPrefix(path, dir+"/") {
			out = append(out, path)
		}
	}
	return out
}

// spoil changes the plan. What is not in it now cannot be spoiled.
func (f Fault) spoil(p plan, path string) {
	if f.Missing {
		for _, name := range p.below(path) {
			delete(p, name)
		}
		delete(p, path)
		return
	}
	e, ok := p[path]
	if !ok {
		return
	}
	switch {
	case f.Content != nil:
		e.text = *f.Content
	case f.Dangling:
		e = entry{kind: symlink, text: "nowhere"}
	case f.Unreadable:
		e = entry{kind: directory, mode: 0o755}
	case f.Without != "":
		e.text = repeat(e.text, f.Without, 0)
	case f.Twice != "":
		e.text = repeat(e.text, f.Twice, 2)
	}
	p[path] = e
}

// repeat has the lines with that text n times.
func repeat(content, text string, n int) string {
	var b strings.Builder
	for line := range strings.Lines(content) {
		times := 1
		if strings.Contains(line, text) {
			times = n
		}
		b.WriteString(strings.Repeat(line, times))
	}
	return b.String()
}
