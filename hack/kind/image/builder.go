// Package image makes what a cluster runs: the node image, the base image of
// our own containers, and the command line tools. Everything comes from Go
// modules and Debian packages, so no container registry is needed.
package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/progress"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

// Builder makes images. Nothing happens before a method is called.
type Builder struct {
	Store  store.Store
	Run    *command.Runner
	Log    *progress.Log
	Source string // the folder with this module's go.mod
	Mirror string // where Debian packages come from
	// Packages installs Debian packages on this machine.
	Packages func(ctx context.Context, names ...string) error
}

// required returns the version of a module that a nested module asks for.
// The go.mod files are the only place where versions are written down.
func (b *Builder) required(nested, module string) (string, error) {
	path := filepath.Join(b.Source, nested, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read pinned versions: %w", err)
	}
	version, ok := requiredIn(string(text), module)
	if !ok {
		return "", fmt.Errorf("%s requires no version of %s", path, module)
	}
	return version, nil
}

func requiredIn(gomod, module string) (string, bool) {
	for line := range strings.Lines(gomod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], true
		}
	}
	return "", false
}
