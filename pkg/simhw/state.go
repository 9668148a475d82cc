package simhw

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

const stateSchema = 1

// stateFile is the form on disk.
type stateFile struct {
	Schema int      `json:"schema"`
	State  Snapshot `json:"state"`
}

// loadState reads the state; nil if there is none yet.
func loadState(path string, server catalog.Server, seed string) (*Snapshot, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state of simulated hardware: %w", err)
	}
	var f stateFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("decode state of simulated hardware %s: %w; remove the file to start afresh", path, err)
	}
	if f.Schema != stateSchema {
		return nil, fmt.Errorf("state of simulated hardware %s has schema %d, want %d; remove the file to start afresh", path, f.Schema, stateSchema)
	}
	if f.State.Server != server.Name || f.State.Seed != seed || len(f.State.GPUs) != len(server.GPUs) {
		return nil, fmt.Errorf("state of simulated hardware %s belongs to server %s with seed %q, not to %s with %q; remove the file to start afresh",
			path, f.State.Server, f.State.Seed, server.Name, seed)
	}
	return &f.State, nil
}

// saveState replaces the file as a whole, so that a crash leaves the old or the
// new state, never a part of one.
func saveState(path string, s *Snapshot) error {
	if path == "" {
		return nil
	}
	raw, err := json.Marshal(stateFile{Schema: stateSchema, State: *s})
	if err != nil {
		return fmt.Errorf("encode state of simulated hardware: %w", err)
	}
	if err := replaceFile(path, raw); err != nil {
		return fmt.Errorf("write state of simulated hardware: %w", err)
	}
	return nil
}

// replaceFile writes, syncs and renames; the caller is the only writer.
func replaceFile(path string, content []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
