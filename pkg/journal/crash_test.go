package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// operation is one call that changes files.
type operation struct {
	call func(*Journal) error
	// old and new are the record of uid1 without and with the call; nil for none.
	old, new *Record
	rubbish  bool
}

func operations() map[string]operation {
	p := migPlan(uid1, gpuA, gpuB)
	done := finished(p)
	begun := Record{State: Begun, Plan: p}
	one := Record{State: Begun, Plan: p, Results: done.Results[:1]}
	all := Record{State: Begun, Plan: p, Results: done.Results}
	return map[string]operation{
		"Begin":        {old: nil, new: &begun, call: func(j *Journal) error { return j.Begin(p) }},
		"RecordResult": {old: &begun, new: &one, call: func(j *Journal) error { return j.RecordResult(uid1, 0, result(0)) }},
		"Finish":       {old: &all, new: &done, call: func(j *Journal) error { return j.Finish(uid1, prepared(p)) }},
		"Remove":       {old: &done, new: nil, call: func(j *Journal) error { return j.Remove(uid1) }},
		"Open":         {old: &done, new: &done, rubbish: true, call: func(j *Journal) error { return j.open() }},
	}
}

// leaveRubbish makes what crashes leave: a temporary file, an entry without a
// record and a record without an entry.
func leaveRubbish(t *testing.T, j *Journal) {
	t.Helper()
	write(t, filepath.Join(j.claims(), tempPrefix+"123"), "{")
	write(t, filepath.Join(j.held(), string(gpuA), uid3), "")
	if err := os.Remove(filepath.Join(j.held(), string(gpuA), uid1)); err != nil {
		t.Fatal(err)
	}
}

// put stores a record without syncing it.
func put(t testing.TB, j *Journal, rec Record) {
	t.Helper()
	data, err := encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	write(t, j.file(rec.Plan.Claim.UID), string(data))
	if err := j.index(rec); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkState opens the directory and expects the record of uid1 to be one of want,
// the index to agree with it, uid2 unharmed on gpuC, and nothing left over.
func checkState(t *testing.T, dir string, want ...*Record) {
	t.Helper()
	j := open(t, dir)
	rec, found, err := j.Lookup(uid1)
	if err != nil {
		t.Fatal(err)
	}
	var got *Record
	if found {
		got = &rec
	}
	seen := false
	for _, w := range want {
		seen = seen || cmp.Equal(w, got)
	}
	if !seen {
		t.Errorf("record is none of those expected: %+v", got)
	}
	expect := []string{}
	if found {
		expect = append(expect, uid1)
	}
	for gpu, uids := range map[hardware.PCIAddress][]string{gpuA: expect, gpuB: expect, gpuC: {uid2}} {
		held, err := j.Held(gpu)
		if diff := cmp.Diff(uids, uidsOf(held)); err != nil || diff != "" {
			t.Errorf("Held(%s): error %v (-want +got):\n%s", gpu, err, diff)
		}
	}
	for _, path := range files(t, dir) {
		if !strings.Contains(path, uid2) && (!found || !strings.Contains(path, uid1)) {
			t.Errorf("left over: %s", path)
		}
	}
}

// start makes a journal in which uid2 holds gpuC and uid1 is as before the call.
func start(t *testing.T, op operation) *Journal {
	t.Helper()
	j := open(t, t.TempDir())
	put(t, j, finished(migPlan(uid2, gpuC)))
	if op.old != nil {
		put(t, j, *op.old)
	}
	if op.rubbish {
		leaveRubbish(t, j)
	}
	return j
}

// A crash at any point leaves the state before the call or that after it.
func TestCrash(t *testing.T) {
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, op)
			var copies, points []string
			j.hook = func(point string) error {
				dir := filepath.Join(t.TempDir(), "copy")
				points, copies = append(points, point), append(copies, dir)
				return os.CopyFS(dir, os.DirFS(j.dir))
			}
			if err := op.call(j); err != nil {
				t.Fatal(err)
			}
			for i, dir := range copies {
				t.Run(fmt.Sprintf("%d-%s", i, points[i]), func(t *testing.T) {
					checkState(t, dir, op.old, op.new)
				})
			}
			checkState(t, j.dir, op.new)
		})
	}
}

// A change that fails, be it the disk that is full or read-only, is reported and
// leaves nothing half done; the same call works afterwards.
func TestFailure(t *testing.T) {
	for name, op := range operations() {
		total := 0
		j := start(t, op)
		j.hook = func(string) error { total++; return nil }
		if err := op.call(j); err != nil {
			t.Fatal(err)
		}
		if total < 2 {
			t.Fatalf("%s: %d changes seen", name, total)
		}
		for n := range total {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				j := start(t, op)
				seen := 0
				j.hook = func(string) error {
					seen++
					if seen == n+1 {
						return syscall.ENOSPC
					}
					return nil
				}
				if err := op.call(j); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("error %v, want %v", err, syscall.ENOSPC)
				}
				j.hook = nil
				if name == "Begin" {
					checkState(t, j.dir, nil)
				} else {
					checkState(t, j.dir, op.old, op.new)
				}
				if n == total-1 && (name == "RecordResult" || name == "Finish") {
					return // the last sync failed: it is done, but perhaps not for good
				}
				if err := op.call(j); err != nil {
					t.Fatalf("again: %v", err)
				}
				checkState(t, j.dir, op.new)
			})
		}
	}
}

// What is synced, in which order: the file before it gets its name, the directory
// before the call returns.
func TestOrderOfChanges(t *testing.T) {
	want := map[string][]string{
		"Begin":        {"create", "write", "sync", "link", "syncdir", "index", "index"},
		"RecordResult": {"create", "write", "sync", "rename", "syncdir"},
		"Finish":       {"create", "write", "sync", "rename", "syncdir"},
		// One for each GPU that ever was in use, then the file.
		"Remove": {"unlink", "unlink", "unlink", "unlink", "syncdir"},
	}
	for name, op := range operations() {
		if want[name] == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, others := range []int{0, 100} {
				j := start(t, op)
				for i := range others {
					put(t, j, finished(migPlan(fmt.Sprintf("other-%d", i), gpuC)))
				}
				var got []string
				j.hook = func(point string) error { got = append(got, point); return nil }
				if err := op.call(j); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want[name], got); diff != "" {
					t.Errorf("with %d other claims (-want +got):\n%s", others, diff)
				}
			}
		})
	}
}

// A real file system that is full, then read-only.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=100"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	j := open(t, dir)
	finish(t, j, migPlan(uid2, gpuC))
	p := migPlan(uid1, gpuA, gpuB)
	if err := j.Begin(p); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.RecordResult(uid1, 0, result(0)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: RecordResult gives %v", err)
	}
	if err := j.Begin(migPlan(uid3, gpuA)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: Begin gives %v", err)
	}
	checkState(t, dir2(t, dir), &Record{State: Begun, Plan: p})
	if err := j.Remove(uid1); err != nil { // what frees space works when it is full
		t.Errorf("full: Remove gives %v", err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(p); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: Begin gives %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: Open gives %v", err)
	}
	if _, found, err := j.Lookup(uid2); !found || err != nil {
		t.Errorf("read-only: Lookup gives %v, %v", found, err)
	}
}

// dir2 copies a journal without what the test filled the disk with.
func dir2(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(to, "fill")); err != nil {
		t.Fatal(err)
	}
	return to
}
