package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix marks files that are not complete yet. No UID begins with it.
const tempPrefix = ".tmp-"

// create stores the first version of a record, and fails with ErrExists if the
// claim has a file: link, unlike rename, does not replace.
func (j *Journal) create(rec Record) error {
	path := j.file(rec.Plan.Claim.UID)
	temp, err := j.writeTemp(rec)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	err = j.do("link", func() error { return os.Link(temp, path) })
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s", ErrExists, path)
	}
	if err != nil {
		return err
	}
	if err := j.syncDir(j.claims()); err != nil {
		return errors.Join(err, j.unlink(path))
	}
	return nil
}

// replace stores a further version of a record in place of the one before.
func (j *Journal) replace(rec Record) error {
	temp, err := j.writeTemp(rec)
	if err != nil {
		return err
	}
	err = j.do("rename", func() error { return os.Rename(temp, j.file(rec.Plan.Claim.UID)) })
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return j.syncDir(j.claims())
}

// writeTemp stores a record, synced, under a name of its own.
func (j *Journal) writeTemp(rec Record) (path string, err error) {
	data, err := encode(rec)
	if err != nil {
		return "", err
	}
	var f *os.File
	err = j.do("create", func() error {
		f, err = os.CreateTemp(j.claims(), tempPrefix+"*") // mode 0600
		return err
	})
	if err != nil {
		return "", err
	}
	err = j.do("write", func() error { _, err := f.Write(data); return err })
	if err == nil {
		err = j.do("sync", f.Sync)
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// sweep removes what writers that crashed have left. The caller holds the
// exclusive lock, so no writer is alive.
func (j *Journal) sweep() error {
	entries, err := os.ReadDir(j.claims())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if err := j.unlink(filepath.Join(j.claims(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlink removes a file; none is fine.
func (j *Journal) unlink(path string) error {
	err := j.do("unlink", func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes the names in a directory survive a loss of power.
func (j *Journal) syncDir(dir string) error {
	return j.do("syncdir", func() error {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// do is one change of the file system.
func (j *Journal) do(op string, change func() error) error {
	if j.hook != nil {
		if err := j.hook(op); err != nil {
			return err
		}
	}
	return change()
}

// The lock keeps Open, which removes what looks left over, apart from writers of
// any process. Writers do not keep each other apart.
const (
	shared    = unix.LOCK_SH
	exclusive = unix.LOCK_EX
)

func (j *Journal) lock(how int) (unlock func(), err error) {
	path := filepath.Join(j.dir, "journal.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock journal %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil // closing releases it
}
