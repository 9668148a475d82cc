package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// schema is the version of the payload. Fields may come and go within a version;
// it rises when an older reader would misunderstand.
const schema = 1

// maxFileBytes is far above a claim's 32 devices. More is not a record.
const maxFileBytes = 4 << 20

// header is the first line of a file. The checksum covers the bytes of all further
// lines as they are stored, so it holds whatever fields a later version adds.
type header struct {
	Schema int    `json:"schema"`
	SHA256 string `json:"sha256"`
}

func encode(rec Record) ([]byte, error) {
	payload, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	payload = append(payload, '\n')
	head, err := json.Marshal(header{Schema: schema, SHA256: checksum(payload)})
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return append(append(head, '\n'), payload...), nil
}

// decode reads a file's bytes. Unknown fields are tolerated: a newer version of
// the same schema may have written them.
func decode(data []byte, uid string) (Record, error) {
	head, payload, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return Record{}, fmt.Errorf("%w: it has %d bytes and no complete first line", ErrCorrupt, len(data))
	}
	var h header
	if err := json.Unmarshal(head, &h); err != nil {
		return Record{}, fmt.Errorf("%w: first line: %w", ErrCorrupt, err)
	}
	if h.Schema > schema {
		return Record{}, fmt.Errorf("%w: it has schema %d, this version reads up to %d", ErrNewerSchema, h.Schema, schema)
	}
	if h.Schema < 1 {
		return Record{}, fmt.Errorf("%w: first line has no schema", ErrCorrupt)
	}
	if sum := checksum(payload); sum != h.SHA256 {
		return Record{}, fmt.Errorf("%w: its checksum is %.12s…, its first line says %.12q…", ErrCorrupt, sum, h.SHA256)
	}
	var rec Record
	if err := json.Unmarshal(payload, &rec); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := rec.check(uid); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return rec, nil
}

func checksum(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// readRecord reads a claim's file. The error is fs.ErrNotExist if there is none,
// else a *FileError.
func readRecord(path, uid string) (Record, error) {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, err
	}
	var rec Record
	if err == nil {
		rec, err = decode(data, uid)
	}
	if err != nil {
		return Record{}, &FileError{UID: uid, Path: path, Err: err}
	}
	return rec, nil
}

// readFile reads a regular file, and does not wait for a writer if a pipe is in
// its place.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: it is a symbolic link", ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file but %s", ErrCorrupt, info.Mode())
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrCorrupt, info.Size())
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}
