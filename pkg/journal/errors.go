package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt: the claim's file is not what was written. What the claim holds
	// is then unknown, so its GPUs stay held.
	ErrCorrupt = errors.New("journal file is corrupt")
	// ErrNewerSchema: a newer version wrote the claim's file.
	ErrNewerSchema = errors.New("journal file was written by a newer version")
	// ErrExists: the claim has a record already.
	ErrExists = errors.New("the claim has a record already")
	// ErrNotBegun: the claim has no record.
	ErrNotBegun = errors.New("the claim has no record")
	// ErrInvalidUID: the string cannot be the UID of a claim, nor a file name.
	ErrInvalidUID = errors.New("not a valid claim UID")
)

// FileError tells which record cannot be used and why.
type FileError struct {
	// UID is the claim's, Path its file.
	UID  string
	Path string
	// Err wraps ErrCorrupt, ErrNewerSchema or the error of reading the file.
	Err error
}

// Error names the file and what to do about it.
func (e *FileError) Error() string {
	advice := "the claim and the GPUs it holds stay as they are"
	switch {
	case errors.Is(e.Err, ErrCorrupt):
		advice += "; once no pod uses the claim and its MIG slices are destroyed, delete the file"
	case errors.Is(e.Err, ErrNewerSchema):
		advice += "; run the newer version again, or drain the node with it before going back"
	}
	return fmt.Sprintf("read claim %s from %s: %v; %s", e.UID, e.Path, e.Err, advice)
}

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }
