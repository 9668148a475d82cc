package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// stored is a file with the payload, its checksum right.
func stored(t testing.TB, payload string) []byte {
	t.Helper()
	return []byte(`{"schema":1,"sha256":"` + checksum([]byte(payload)) + `"}` + "\n" + payload)
}

// CHKP-03: a bad file is reported, costs its claim only, keeps its GPUs held, and
// stays as it is.
func TestBadFile(t *testing.T) {
	good, err := encode(finished(migPlan(uid1, gpuA)))
	if err != nil {
		t.Fatal(err)
	}
	_, payload, _ := bytes.Cut(good, []byte("\n"))
	replace := func(old, new string) []byte {
		if !bytes.Contains(payload, []byte(old)) {
			t.Fatalf("no %q in the payload", old)
		}
		return stored(t, strings.Replace(string(payload), old, new, 1))
	}
	file := func(data []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, data, 0o600) }
	}
	tests := map[string]struct {
		place func(path string) error
		want  error
		says  string
	}{
		"CHKP-03 0 bytes":        {file(nil), ErrCorrupt, "0 bytes"},
		"CHKP-03 cut in half":    {file(good[:len(good)/2]), ErrCorrupt, "checksum"},
		"cut in the first line":  {file(good[:30]), ErrCorrupt, "first line"},
		"last byte missing":      {file(good[:len(good)-1]), ErrCorrupt, "checksum"},
		"more at the end":        {file(append(bytes.Clone(good), '\n')), ErrCorrupt, "checksum"},
		"CHKP-03 wrong checksum": {file(append([]byte(`{"schema":1,"sha256":"00"}`+"\n"), payload...)), ErrCorrupt, "checksum"},
		"no checksum":            {file(append([]byte(`{"schema":1}`+"\n"), payload...)), ErrCorrupt, "checksum"},
		"no schema":              {file(append([]byte(`{}`+"\n"), payload...)), ErrCorrupt, "no schema"},
		"no header":              {file(payload), ErrCorrupt, "first line"},
		"CHKP-03 null":           {file([]byte("null")), ErrCorrupt, "first line"},
		"null and a line":        {file([]byte("null\nnull")), ErrCorrupt, "no schema"},
		"null payload":           {file(stored(t, "null")), ErrCorrupt, `record of claim ""`},
		"payload of wrong type":  {file(stored(t, `{"state":1}`)), ErrCorrupt, "state"},
		"another claim's":        {file(replace(`"uid": "`+uid1, `"uid": "`+uid2)), ErrCorrupt, uid2},
		"unknown state":          {file(replace(`"Finished"`, `"Paused"`)), ErrCorrupt, `"Paused"`},
		"address is a path":      {file(replace(string(gpuA), "../../x")), ErrCorrupt, `"../../x"`},
		"step without device":    {file(replace(`"kind": "CreateComputeInstance",`+"\n        "+`"device": 0`, `"kind": "CreateComputeInstance", "device": 9`)), ErrCorrupt, "no device 9"},
		"UPGR-01 newer schema":   {file([]byte(`{"schema":2,"checksum":"..."}` + "\nwho knows")), ErrNewerSchema, "schema 2"},
		"zeros":                  {file(make([]byte, 4096)), ErrCorrupt, "first line"},
		"too large":              {func(path string) error { return os.Truncate(path, maxFileBytes+1) }, ErrCorrupt, "bytes"},
		"CHKP-03 a directory":    {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, ErrCorrupt, "no regular file"},
		"a pipe":                 {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, ErrCorrupt, "no regular file"},
		"a symbolic link":        {func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) }, ErrCorrupt, "symbolic link"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := open(t, dir)
			put(t, j, finished(migPlan(uid1, gpuA, gpuB)))
			put(t, j, finished(migPlan(uid2, gpuB, gpuC)))
			if err := tc.place(j.file(uid1)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(j.file(uid1))
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range []*Journal{j, open(t, dir)} { // also after a restart
				checkBadFile(t, j, tc.want, tc.says)
			}
			after, err := os.Lstat(j.file(uid1))
			if err != nil || !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Errorf("the bad file was touched: %v, error %v", after, err)
			}
		})
	}
}

// checkBadFile expects uid1 to be unreadable and uid2 to be served.
func checkBadFile(t *testing.T, j *Journal, want error, says string) {
	t.Helper()
	_, found, err := j.Lookup(uid1)
	var file *FileError
	if found || !errors.Is(err, want) || !errors.As(err, &file) || file.UID != uid1 || file.Path != j.file(uid1) {
		t.Fatalf("Lookup: found %v, error %v", found, err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("error does not say %q: %v", says, err)
	}
	for what, err := range map[string]error{
		"RecordResult": j.RecordResult(uid1, 0, result(0)),
		"Finish":       j.Finish(uid1, nil),
		"Remove":       j.Remove(uid1),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if err := j.Begin(migPlan(uid1, gpuA)); !errors.Is(err, ErrExists) {
		t.Errorf("Begin: error %v", err)
	}
	for gpu, wantErr := range map[hardware.PCIAddress]error{gpuA: want, gpuB: want, gpuC: nil} {
		held, err := j.Held(gpu)
		uids := []string{uid2}
		if gpu == gpuA {
			uids = []string{}
		}
		if diff := cmp.Diff(uids, uidsOf(held)); !errors.Is(err, wantErr) || diff != "" {
			t.Errorf("Held(%s): error %v, want %v (-want +got):\n%s", gpu, err, wantErr, diff)
		}
	}
	all, errs := j.All()
	if diff := cmp.Diff([]string{uid2}, uidsOf(all)); diff != "" || len(errs) != 1 || !errors.Is(errs[0], want) {
		t.Errorf("All: errors %v (-want +got):\n%s", errs, diff)
	}
}

// Whatever bit of a file flips, it is noticed.
func TestFlippedBit(t *testing.T) {
	rec := finished(migPlan(uid1, gpuA))
	good, err := encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			got, err := decode(bad, uid1)
			// JSON's keys may change case, as in "Schema", with the same meaning.
			if err == nil && (!cmp.Equal(rec, got) || !bytes.EqualFold(good[:bytes.IndexByte(good, '\n')], bad[:bytes.IndexByte(bad, '\n')])) {
				t.Fatalf("bit %d of byte %d: decoded to %+v", bit, i, got)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerSchema) {
				t.Fatalf("bit %d of byte %d: error %v", bit, i, err)
			}
		}
	}
}

// A bad file of which not even the index tells what it holds counts for every GPU,
// until it is gone or readable again.
func TestBadFileWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	put(t, j, finished(migPlan(uid2, gpuC)))
	write(t, j.file(uid1), "")
	for _, gpu := range []hardware.PCIAddress{gpuA, gpuC} {
		if _, err := open(t, dir).Held(gpu); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Held(%s): error %v", gpu, err)
		}
	}
	put(t, j, finished(migPlan(uid1, gpuA)))
	if held, err := j.Held(gpuC); err != nil || len(held) != 1 {
		t.Errorf("readable again: %v, error %v", held, err)
	}
	if err := os.Remove(j.file(uid1)); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir)
	if held, err := j.Held(gpuA, gpuC); err != nil || len(held) != 1 {
		t.Errorf("gone: %v, error %v", held, err)
	}
	if _, err := os.Stat(filepath.Join(j.held(), unknownGPU, uid1)); err == nil {
		t.Error("its note is left")
	}
}

// What else may lie in the directory is neither read nor removed.
func TestStrangers(t *testing.T) {
	j := open(t, t.TempDir())
	put(t, j, finished(migPlan(uid2, gpuC)))
	strangers := []string{"README", uid1 + ".json.bak", "..json", ".hidden.json", "a b.json"}
	for _, name := range strangers {
		write(t, filepath.Join(j.claims(), name), "x")
	}
	write(t, filepath.Join(j.held(), string(gpuA), "..."), "")
	j = open(t, j.dir)
	all, errs := j.All()
	if diff := cmp.Diff([]string{uid2}, uidsOf(all)); diff != "" || len(errs) > 0 {
		t.Errorf("All: errors %v (-want +got):\n%s", errs, diff)
	}
	if held, err := j.Held(gpuA); len(held) > 0 || err != nil {
		t.Errorf("Held: %v, error %v", held, err)
	}
	for _, name := range strangers {
		if _, err := os.Stat(filepath.Join(j.claims(), name)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := encode(finished(migPlan(uid1, gpuA)))
	if err != nil {
		f.Fatal(err)
	}
	_, payload, _ := bytes.Cut(good, []byte("\n"))
	f.Add(good, false)
	f.Add(payload, true)
	f.Add([]byte(`{"state":"Begun","plan":{"claim":{"uid":"`+uid1+`"},"devices":[{"gpu":{"pci":"0000:3b:00.0"}}],"steps":[{"device":0}]}}`), true)
	f.Add([]byte("null"), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal { // past the checksum
			data = stored(t, string(data))
		}
		rec, err := decode(data, uid1)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerSchema) {
				t.Errorf("untyped error: %v", err)
			}
			return
		}
		for _, s := range rec.Plan.Steps {
			_ = rec.Plan.Devices[s.Device]
		}
		again, err := encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(again, uid1); err != nil || !cmp.Equal(rec, got) {
			t.Errorf("round trip: %+v, error %v; want %+v", got, err, rec)
		}
	})
}
