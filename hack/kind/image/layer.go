package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
)

// layer is the content of one image layer. Nothing is read before write.
type layer struct {
	files map[string]source // by path without a leading slash
}

// source is where one file of a layer comes from: exactly one field is set,
// besides the mode.
type source struct {
	path string // a file on this machine
	text []byte
	link string
	dir  bool
	mode fs.FileMode
}

func newLayer() *layer { return &layer{files: map[string]source{}} }

func (l *layer) put(name string, s source) { l.files[strings.TrimPrefix(name, "/")] = s }

func (l *layer) text(name, text string)    { l.put(name, source{text: []byte(text), mode: 0o644}) }
func (l *layer) link(name, target string)  { l.put(name, source{link: target, mode: 0o777}) }
func (l *layer) dir(name string)           { l.put(name, source{dir: true, mode: 0o755}) }
func (l *layer) program(name, path string) { l.put(name, source{path: path, mode: 0o755}) }
func (l *layer) file(name, path string)    { l.put(name, source{path: path, mode: 0o644}) }

// write makes the layer's tar file, sorted, with the folders that the files need.
func (l *layer) write(target string) error {
	file, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	for _, name := range l.names() {
		if err := writeEntry(archive, name, l.files[name]); err != nil {
			return fmt.Errorf("write %s into layer: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("finish layer: %w", err)
	}
	return file.Close()
}

// names lists all entries in order, parents first, adding missing parents.
func (l *layer) names() []string {
	for name := range l.files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := l.files[dir]; !ok {
				l.dir(dir)
			}
		}
	}
	names := make([]string, 0, len(l.files))
	for name := range l.files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func writeEntry(archive *tar.Writer, name string, s source) error {
	header := &tar.Header{Name: name, Mode: int64(s.mode.Perm()), ModTime: epoch}
	switch {
	case s.dir:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case s.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, s.link
		return archive.WriteHeader(header)
	case s.path != "":
		return copyFile(archive, header, s.path)
	}
	return writeFile(archive, name, header.Mode, s.text)
}

func writeFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func copyFile(archive *tar.Writer, header *tar.Header, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size, header.ModTime = info.Size(), epoch
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
