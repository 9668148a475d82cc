// Package store keeps what is expensive to make: folders named after a hash of
// everything that went into them, complete or not there at all.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Store is the cache folder.
type Store struct{ Root string }

// Path joins a path inside the store.
func (s Store) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Root}, elem...)...)
}

// Has reports whether an entry is complete.
func (s Store) Has(kind, key string) bool {
	_, err := os.Stat(s.Path(kind, key))
	return err == nil
}

// Build returns the folder of an entry, filling it first if it is not there.
// The entry appears under its name only once fill has succeeded and the data
// is on disk.
func (s Store) Build(ctx context.Context, kind, key string, fill func(dir string) error) (string, error) {
	final := s.Path(kind, key)
	if s.Has(kind, key) {
		return final, nil
	}
	temp, err := s.Temp(key)
	if err != nil {
		return "", err
	}
	defer func() { _ = RemoveTree(temp) }()
	if err := fill(temp); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", fmt.Errorf("open up cache entry %s: %w", key, err)
	}
	syscall.Sync() // a rename that survives a power cut must not find empty files
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	if err := os.Rename(temp, final); err != nil {
		return "", fmt.Errorf("publish cache entry %s: %w", key, err)
	}
	return final, nil
}

// Keep removes all entries of a kind whose name starts with prefix, except the
// one with the given key.
func (s Store) Keep(kind, prefix, key string) error {
	entries, err := filepath.Glob(s.Path(kind, prefix+"*"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if filepath.Base(entry) == prefix+key {
			continue
		}
		if err := RemoveTree(entry); err != nil {
			return err
		}
	}
	return nil
}

// Temp makes a folder for something unfinished. It is swept by the next run if
// this one dies.
func (s Store) Temp(name string) (string, error) {
	if err := os.MkdirAll(s.Path("tmp"), 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	temp, err := os.MkdirTemp(s.Path("tmp"), name+"-*")
	if err != nil {
		return "", fmt.Errorf("make temporary folder: %w", err)
	}
	return temp, nil
}

// Sweep removes what runs that died have left. Call it with the lock held.
func (s Store) Sweep() error {
	entries, err := os.ReadDir(s.Path("tmp"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list unfinished work: %w", err)
	}
	for _, entry := range entries {
		if err := RemoveTree(s.Path("tmp", entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// RemoveTree removes a folder unless something is mounted below it: a mount
// could lead the removal out of the folder and into the host.
func RemoveTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for mounts below %s: %w", dir, err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			return fmt.Errorf("remove %s: %s is mounted inside; unmount it and try again", dir, fields[4])
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove unfinished work: %w", err)
	}
	return nil
}
