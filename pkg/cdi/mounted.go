package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// filePath is where the file lies that a container of the claim sees at path.
func (w *Writer) filePath(claimUID, path string) string {
	return filepath.Join(w.cfg.FilesDir, claimUID, filepath.Join("/", path))
}

// saveFiles writes the devices' files, readable for every user of a container. Each is
// replaced whole, so that a container which runs goes on to see what it started with.
func (w *Writer) saveFiles(claimUID string, devices []Device) error {
	for _, d := range devices {
		for _, f := range d.Files {
			if w.cfg.FilesDir == "" || !uidPattern.MatchString(claimUID) {
				return fmt.Errorf("no place for %s of claim %q", f.Path, claimUID)
			}
			path := w.filePath(claimUID, f.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path+".tmp", f.Content, 0o644); err != nil {
				return err
			}
			if err := os.Rename(path+".tmp", path); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeFiles removes what saveFiles wrote for a claim.
func (w *Writer) removeFiles(claimUID string) error {
	if w.cfg.FilesDir == "" {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(w.cfg.FilesDir, claimUID)); err != nil {
		return fmt.Errorf("remove files of claim %s: %w", claimUID, err)
	}
	return nil
}

// listFiles is the UIDs of the claims that have files.
func (w *Writer) listFiles() ([]string, error) {
	if w.cfg.FilesDir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(w.cfg.FilesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list files of claims: %w", err)
	}
	var out []string
	for _, e := range entries {
		if uidPattern.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}
