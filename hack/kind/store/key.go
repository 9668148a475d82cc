package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Key collects the inputs of a cache entry.
type Key struct{ sum hash.Hash }

// NewKey starts a key with plain words such as versions and flags.
func NewKey(words ...string) *Key {
	k := &Key{sum: sha256.New()}
	for _, word := range words {
		k.add("word", []byte(word))
	}
	return k
}

// Files adds all files below root whose relative path match accepts, by path
// and content.
func (k *Key) Files(root string, match func(path string) bool) error {
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && match(filepath.ToSlash(rel)) {
			paths = append(paths, rel)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list inputs in %s: %w", root, err)
	}
	sort.Strings(paths)
	for _, path := range paths {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return fmt.Errorf("read input: %w", err)
		}
		k.add(filepath.ToSlash(path), content)
	}
	return nil
}

// add writes lengths too, so that moving a byte from one input to the next
// changes the key.
func (k *Key) add(name string, content []byte) {
	fmt.Fprintf(k.sum, "%d %s %d\n", len(name), name, len(content))
	k.sum.Write(content)
}

// String is the key as it appears in names.
func (k *Key) String() string { return hex.EncodeToString(k.sum.Sum(nil))[:12] }

// GoSources matches what a Go build reads, without tests.
func GoSources(path string) bool {
	switch filepath.Base(path) {
	case "go.mod", "go.sum":
		return true
	}
	return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
}
