package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

const (
	specSuffix = ".json"
	// unfinishedSuffix is no extension that runtimes read.
	unfinishedSuffix = ".json.tmp"
)

// uidPattern keeps a UID from being anything else than a part of a file name and
// of a CDI device name.
var uidPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,126}[A-Za-z0-9])?$`)

// path is the claim's file without its suffix.
func (w *Writer) path(claimUID string) (string, error) {
	if !uidPattern.MatchString(claimUID) {
		return "", fmt.Errorf("claim UID %q: want letters, digits and dashes", claimUID)
	}
	return filepath.Join(w.cfg.Dir, w.prefix()+claimUID), nil
}

func (w *Writer) prefix() string { return cdi.GenerateSpecName(w.cfg.Vendor, "claim") + "-" }

// save validates the spec as a runtime would, from the file, before the rename
// makes it visible. The unfinished file lies in the same directory, since
// runtimes with an older CDI library notice a rename only where it starts; its
// name is the claim's, so that what a crash leaves behind is found again.
func (w *Writer) save(claimUID string, spec *specs.Spec) error {
	path, err := w.path(claimUID)
	if err != nil {
		return err
	}
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return err
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(w.cfg.Dir, 0o755); err != nil {
		return err
	}
	unfinished := path + unfinishedSuffix
	if err := os.WriteFile(unfinished, append(data, '\n'), 0o600); err != nil {
		return err
	}
	if _, err := cdi.ReadSpec(unfinished, 0); err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return os.Rename(unfinished, path+specSuffix)
}

// Remove removes the claim's files; it is no error if there are none.
func (w *Writer) Remove(claimUID string) error {
	path, err := w.path(claimUID)
	if err != nil {
		return err
	}
	for _, suffix := range []string{specSuffix, unfinishedSuffix} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove CDI spec of claim %s: %w", claimUID, err)
		}
	}
	return w.removeFiles(claimUID)
}

// List is the UIDs of all claims that have a file, also an unfinished one, in
// ascending order. Without a directory there are none.
func (w *Writer) List() ([]string, error) {
	out, err := w.listFiles()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(w.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list CDI specs: %w", err)
	}
	for _, e := range entries {
		name, ours := strings.CutPrefix(e.Name(), w.prefix())
		uid := strings.TrimSuffix(strings.TrimSuffix(name, ".tmp"), specSuffix)
		if ours && uid != name && uidPattern.MatchString(uid) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
