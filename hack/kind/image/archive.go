package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// runConfig is the part of an image that says how to start it.
type runConfig struct {
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	StopSignal string   `json:",omitempty"`
}

// picture is one image: a name, how to start it, and its layers as tar files.
type picture struct {
	ref    string
	config runConfig
	layers []string
}

// epoch makes images the same whenever they are made.
var epoch = time.Unix(0, 0).UTC()

// writeArchive writes images in the format of `docker save`, which both Docker
// and containerd load. Layers that images share are written once.
func writeArchive(path string, pictures []picture) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make image archive: %w", err)
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	var manifest []manifestEntry
	written := map[string]bool{}
	for _, p := range pictures {
		entry, err := p.write(archive, written)
		if err != nil {
			return fmt.Errorf("write image %s: %w", p.ref, err)
		}
		manifest = append(manifest, entry)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("encode image manifest: %w", err)
	}
	if err := writeFile(archive, "manifest.json", 0o644, text); err != nil {
		return fmt.Errorf("write image manifest: %w", err)
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("finish image archive: %w", err)
	}
	return file.Close()
}

type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       diffs     `json:"rootfs"`
}

type diffs struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

func (p picture) write(archive *tar.Writer, written map[string]bool) (manifestEntry, error) {
	entry := manifestEntry{RepoTags: []string{p.ref}}
	config := imageConfig{
		Created: epoch, Architecture: runtime.GOARCH, OS: "linux",
		Config: p.config, RootFS: diffs{Type: "layers"},
	}
	for _, layer := range p.layers {
		digest, err := digestOf(layer)
		if err != nil {
			return entry, err
		}
		name := digest + "/layer.tar"
		entry.Layers = append(entry.Layers, name)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, "sha256:"+digest)
		if written[name] {
			continue
		}
		written[name] = true
		if err := copyFile(archive, &tar.Header{Name: name, Mode: 0o644}, layer); err != nil {
			return entry, err
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return entry, err
	}
	sum := sha256.Sum256(text)
	entry.Config = hex.EncodeToString(sum[:]) + ".json"
	return entry, writeFile(archive, entry.Config, 0o644, text)
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
