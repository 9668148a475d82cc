// Package journal is the crash-safe record of what each claim holds.
//
// Every claim has one file, claims/<uid>.json, written whole, so the cost of a
// claim does not grow with the number of claims and a bad file costs one claim.
// The index held/<pci-address>/<uid> tells which claims use a GPU. It is derived:
// an entry is made after the claim's file, removed before it, counts only while
// that file is there, and Open makes the index anew.
//
// Nothing is cached. Several processes may use one directory at the same time, as
// the old and the new plugin do in a rolling update, provided that one claim, and
// the GPUs it uses, have one writer at a time: that lock is the caller's.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/pkg/plan"
)

// Journal is a directory of claim records. Its methods may be called from several
// goroutines at once.
type Journal struct {
	dir string
	// hook, if set, runs before every change of the file system; its error stands
	// for that change's. Tests use it to fail and to stop at each point.
	hook func(op string) error
}

// Open makes the directory ready: it creates what is missing, sweeps what writers
// that crashed have left and makes the index anew. It waits until the writers of
// other processes have finished the change at hand. Unreadable records do not fail
// it; they are reported by Lookup, Held and All.
func Open(dir string) (*Journal, error) {
	j := &Journal{dir: dir}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

func (j *Journal) open() error {
	for _, d := range []string{j.dir, j.claims(), j.held()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for _, d := range []string{j.claims(), j.held()} {
		if err := os.Chmod(d, 0o700); err != nil {
			return err
		}
	}
	unlock, err := j.lock(exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	if err := j.sweep(); err != nil {
		return err
	}
	if err := j.reindex(); err != nil {
		return err
	}
	return j.syncDir(j.dir)
}

// Lookup reads the record of a claim; false if there is none. The error wraps
// ErrCorrupt or ErrNewerSchema, inside a FileError, if the file is there but
// cannot be used.
func (j *Journal) Lookup(uid string) (Record, bool, error) {
	if err := checkUID(uid); err != nil {
		return Record{}, false, err
	}
	rec, err := readRecord(j.file(uid), uid)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	return rec, true, nil
}

// Begin records what is about to be done for a claim, before any of it is done.
// It wraps ErrExists if the claim has a record, which has to be undone and removed
// first. After an error there is no record.
func (j *Journal) Begin(p plan.Plan) error {
	uid := p.Claim.UID
	if err := checkUID(uid); err != nil {
		return err
	}
	rec := Record{State: Begun, Plan: p}
	if err := rec.check(uid); err != nil {
		return fmt.Errorf("begin claim %s in the journal: %w", uid, err)
	}
	unlock, err := j.lock(shared)
	if err != nil {
		return err
	}
	defer unlock()
	if err := j.create(rec); err != nil {
		return fmt.Errorf("begin claim %s in the journal: %w", uid, err)
	}
	if err := j.index(rec); err != nil {
		// Without its index entries the claim would not be seen to hold its GPUs.
		return errors.Join(fmt.Errorf("begin claim %s in the journal: %w", uid, err), j.remove(uid))
	}
	return nil
}

// RecordResult records what a step has done, before the next step starts. Steps
// are recorded in their order, each once. After an error the result counts as not
// recorded, and the caller has to undo the step from what it has in hand; if only
// the last sync failed the record has it all the same, so undoing what is recorded
// must bear to find it undone.
func (j *Journal) RecordResult(uid string, step int, result plan.Result) error {
	return j.update(uid, func(rec *Record) error {
		if step != len(rec.Results) || step >= len(rec.Plan.Steps) {
			return fmt.Errorf("result of step %d: %d of %d steps are recorded, and they are recorded in order",
				step, len(rec.Results), len(rec.Plan.Steps))
		}
		rec.Results = append(rec.Results, result)
		return nil
	})
}

// Finish records what is about to be replied for a claim whose steps are all
// recorded. After an error the claim counts as not finished.
func (j *Journal) Finish(uid string, prepared []PreparedDevice) error {
	return j.update(uid, func(rec *Record) error {
		rec.State, rec.Prepared = Finished, prepared
		return nil
	})
}

// update changes the record of a claim that is begun and not finished.
func (j *Journal) update(uid string, change func(*Record) error) error {
	unlock, err := j.lock(shared)
	if err != nil {
		return err
	}
	defer unlock()
	rec, found, err := j.Lookup(uid)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("update claim %s in the journal: %w", uid, ErrNotBegun)
	case rec.State != Begun:
		return fmt.Errorf("update claim %s in the journal: it is %s already", uid, rec.State)
	}
	err = change(&rec)
	if err == nil {
		err = rec.check(uid)
	}
	if err == nil {
		err = j.replace(rec)
	}
	if err != nil {
		return fmt.Errorf("update claim %s in the journal: %w", uid, err)
	}
	return nil
}

// Remove forgets a claim, after everything it held has been undone. A claim
// without a record is fine. A record that cannot be read is kept, with Lookup's
// error: what it holds is not known to be undone.
func (j *Journal) Remove(uid string) error {
	unlock, err := j.lock(shared)
	if err != nil {
		return err
	}
	defer unlock()
	if _, _, err := j.Lookup(uid); err != nil {
		return err
	}
	return j.remove(uid)
}

// remove takes index entries and file away; entries first, so that one without a
// file never outlives a crash unnoticed. The file is gone for good only when its
// directory is synced.
func (j *Journal) remove(uid string) error {
	if err := j.unindex(uid); err != nil {
		return fmt.Errorf("remove claim %s from the journal: %w", uid, err)
	}
	if err := j.unlink(j.file(uid)); err != nil {
		return fmt.Errorf("remove claim %s from the journal: %w", uid, err)
	}
	if err := j.syncDir(j.claims()); err != nil {
		return fmt.Errorf("remove claim %s from the journal: %w", uid, err)
	}
	return nil
}

// All reads every record, in the order of the UIDs. The errors are those of
// records that cannot be read, each a *FileError, or of the directory.
func (j *Journal) All() ([]Record, []error) {
	uids, err := j.uids()
	if err != nil {
		return nil, []error{err}
	}
	var records []Record
	var errs []error
	for _, uid := range uids {
		rec, found, err := j.Lookup(uid)
		switch {
		case err != nil:
			errs = append(errs, err)
		case found:
			records = append(records, rec)
		}
	}
	return records, errs
}

// uids lists the claims that have a file, in order.
func (j *Journal) uids() ([]string, error) {
	entries, err := os.ReadDir(j.claims())
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	var uids []string
	for _, e := range entries {
		uid, ok := strings.CutSuffix(e.Name(), fileSuffix)
		if ok && checkUID(uid) == nil {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

const fileSuffix = ".json"

func (j *Journal) claims() string { return filepath.Join(j.dir, "claims") }
func (j *Journal) held() string   { return filepath.Join(j.dir, "held") }

// file is the path of a claim's record; the UID has been checked.
func (j *Journal) file(uid string) string { return filepath.Join(j.claims(), uid+fileSuffix) }
