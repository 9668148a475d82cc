package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// unknownGPU is where Open notes a record that is unreadable and has no index
// entry. It may use any GPU, so it counts for every one.
const unknownGPU = "unknown"

// Held reads the records of all claims that use any of the GPUs, each once, in the
// order of their UIDs; claims with admin access are among them. If one of these
// records cannot be read, the error wraps ErrCorrupt or ErrNewerSchema: nothing
// that could overlap with it may be prepared then.
func (j *Journal) Held(gpus ...hardware.PCIAddress) ([]Record, error) {
	var uids []string
	for _, gpu := range gpus {
		if err := checkAddress(gpu); err != nil {
			return nil, err
		}
		entries, err := j.entries(string(gpu))
		if err != nil {
			return nil, err
		}
		uids = append(uids, entries...)
	}
	unknown, err := j.entries(unknownGPU)
	if err != nil {
		return nil, err
	}
	uids = append(uids, unknown...)
	slices.Sort(uids)

	var records []Record
	var errs []error
	for _, uid := range slices.Compact(uids) {
		rec, found, err := j.Lookup(uid)
		if err != nil {
			errs = append(errs, err)
		} else if found && slices.ContainsFunc(gpus, rec.Uses) {
			records = append(records, rec)
		}
	}
	return records, errors.Join(errs...)
}

// entries lists the UIDs in one directory of the index.
func (j *Journal) entries(name string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(j.held(), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read journal's index: %w", err)
	}
	var uids []string
	for _, e := range list {
		if checkUID(e.Name()) == nil {
			uids = append(uids, e.Name())
		}
	}
	return uids, nil
}

// index adds a record's entries. They are not synced: after a loss of power Open
// makes them from the claims' files.
func (j *Journal) index(rec Record) error {
	for _, gpu := range rec.Plan.Addresses() {
		if err := j.enter(string(gpu), rec.Plan.Claim.UID); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) enter(name, uid string) error {
	dir := filepath.Join(j.held(), name)
	return j.do("index", func() error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, uid), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// unindex removes a claim's entries wherever they are. The number of directories
// is that of the node's GPUs; they stay.
func (j *Journal) unindex(uid string) error {
	dirs, err := os.ReadDir(j.held())
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := j.unlink(filepath.Join(j.held(), d.Name(), uid)); err != nil {
			return err
		}
	}
	return nil
}

// reindex makes the index agree with the claims' files. The entries of a file that
// cannot be read are kept: they are all that is known of what it holds. The caller
// holds the exclusive lock.
func (j *Journal) reindex() error {
	if err := j.dropStale(); err != nil {
		return err
	}
	uids, err := j.uids()
	if err != nil {
		return err
	}
	for _, uid := range uids {
		rec, found, err := j.Lookup(uid)
		switch {
		case err != nil:
			err = j.enterUnreadable(uid)
		case found:
			err = j.index(rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropStale removes entries that no record, nor unreadable file, stands behind.
func (j *Journal) dropStale() error {
	dirs, err := os.ReadDir(j.held())
	if err != nil {
		return err
	}
	for _, d := range dirs {
		uids, err := j.entries(d.Name())
		if err != nil {
			return err
		}
		for _, uid := range uids {
			rec, found, err := j.Lookup(uid)
			if err != nil || found && rec.Uses(hardware.PCIAddress(d.Name())) {
				continue
			}
			if err := j.unlink(filepath.Join(j.held(), d.Name(), uid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// enterUnreadable notes a record that cannot be read under unknownGPU, unless the
// index says which GPUs it holds.
func (j *Journal) enterUnreadable(uid string) error {
	dirs, err := os.ReadDir(j.held())
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if _, err := os.Lstat(filepath.Join(j.held(), d.Name(), uid)); err == nil {
			return nil
		}
	}
	return j.enter(unknownGPU, uid)
}
