package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// limit is a kernel setting that all containers share.
type limit struct {
	path string
	want int
}

// limits are what three nodes and the drivers in them need. With Debian's 128
// instances a kubelet fails with "too many open files" and its node never joins:
// https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
var limits = []limit{
	{path: "/proc/sys/fs/inotify/max_user_instances", want: 2048},
	{path: "/proc/sys/fs/inotify/max_user_watches", want: 524288},
}

func (e *Engine) limitsFile() string { return e.Store.Path("docker", "limits.json") }

// RaiseLimits raises what is too low for a cluster.
func (e *Engine) RaiseLimits() error {
	old, err := e.oldLimits()
	if err != nil {
		return err
	}
	var low []limit
	for _, l := range limits {
		value, err := readLimit(l.path)
		if err != nil {
			return err
		}
		if value >= l.want {
			continue
		}
		low = append(low, l)
		if _, known := old[l.path]; !known {
			old[l.path] = value
		}
	}
	if len(low) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		e.Log.Printf("note: %s is low on this host; if nodes do not become ready, raise it to %d as root", low[0].path, low[0].want)
		return nil
	}
	if err := e.noteLimits(old); err != nil {
		return err
	}
	for _, l := range low {
		if err := os.WriteFile(l.path, []byte(strconv.Itoa(l.want)), 0o644); err != nil {
			return fmt.Errorf("raise a limit of this host: %w", err)
		}
		e.Log.Printf("raised %s from %d to %d", l.path, old[l.path], l.want)
	}
	return nil
}

// RestoreLimits puts back what RaiseLimits raised, unless somebody else has
// changed it meanwhile.
func (e *Engine) RestoreLimits() error {
	old, err := e.oldLimits()
	if err != nil || len(old) == 0 {
		return err
	}
	for _, l := range limits {
		before, known := old[l.path]
		value, err := readLimit(l.path)
		if err != nil {
			return err
		}
		if !known || value != l.want {
			continue
		}
		if err := os.WriteFile(l.path, []byte(strconv.Itoa(before)), 0o644); err != nil {
			return fmt.Errorf("restore a limit of this host: %w", err)
		}
	}
	return os.Remove(e.limitsFile())
}

// oldLimits returns the values before the first raise, by path.
func (e *Engine) oldLimits() (map[string]int, error) {
	old := map[string]int{}
	text, err := os.ReadFile(e.limitsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return old, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read old limits: %w", err)
	}
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, fmt.Errorf("parse %s: %w", e.limitsFile(), err)
	}
	return old, nil
}

func (e *Engine) noteLimits(old map[string]int) error {
	text, err := json.Marshal(old)
	if err != nil {
		return fmt.Errorf("note old limits: %w", err)
	}
	if err := os.MkdirAll(e.Store.Path("docker"), 0o755); err != nil {
		return fmt.Errorf("note old limits: %w", err)
	}
	return os.WriteFile(e.limitsFile(), text, 0o644)
}

func readLimit(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read a limit of this host: %w", err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", path, err)
	}
	return value, nil
}
