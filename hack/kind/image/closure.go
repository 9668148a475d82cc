package image

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// closure lists a dynamic program below root, its loader and all libraries that
// it needs, as absolute paths inside root.
func closure(root, program string) ([]string, error) {
	found := []string{program}
	known := map[string]bool{program: true}
	for i := 0; i < len(found); i++ {
		needs, err := needed(filepath.Join(root, found[i]))
		if err != nil {
			return nil, err
		}
		for _, need := range needs {
			path, err := locate(root, need)
			if err != nil {
				return nil, fmt.Errorf("%s needs %s: %w", found[i], need, err)
			}
			if !known[path] {
				known[path] = true
				found = append(found, path)
			}
		}
	}
	return found, nil
}

// needed returns the libraries of a file by name, and its loader by path.
func needed(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read libraries of %s: %w", path, err)
	}
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(loader, 0); err != nil {
			return nil, fmt.Errorf("read loader of %s: %w", path, err)
		}
		libraries = append(libraries, strings.TrimRight(string(loader), "\x00"))
	}
	return libraries, nil
}

func locate(root, library string) (string, error) {
	if filepath.IsAbs(library) {
		return library, nil
	}
	for _, dir := range []string{"usr/lib/*-linux-gnu", "usr/lib", "usr/lib64"} {
		matches, err := filepath.Glob(filepath.Join(root, dir, library))
		if err != nil {
			return "", err
		}
		if len(matches) > 0 {
			return strings.TrimPrefix(matches[0], strings.TrimSuffix(root, "/")), nil
		}
	}
	return "", os.ErrNotExist
}

// resolve follows links inside root, which may be absolute, to a real path.
func resolve(root, path string) (string, error) {
	const most = 20
	for range most {
		dir, err := filepath.EvalSymlinks(filepath.Join(root, filepath.Dir(path)))
		if err != nil {
			return "", fmt.Errorf("follow %s: %w", path, err)
		}
		full := filepath.Join(dir, filepath.Base(path))
		target, err := os.Readlink(full)
		if err != nil {
			return full, nil // not a link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(strings.TrimPrefix(dir, root), target)
		}
		path = target
	}
	return "", fmt.Errorf("follow %s: too many links", path)
}
