package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Tools returns a folder with kubectl and helm.
func (b *Builder) Tools(ctx context.Context) (string, error) {
	kubectl, err := b.kubectlPath(ctx)
	if err != nil {
		return "", err
	}
	helm, err := b.helm()
	if err != nil {
		return "", err
	}
	helmDir, err := b.compile(ctx, helm)
	if err != nil {
		return "", err
	}
	name := filepath.Base(filepath.Dir(kubectl)) + "-" + filepath.Base(helmDir)
	return b.Store.Build(ctx, "tools", name, func(dir string) error {
		for _, target := range []string{kubectl, filepath.Join(helmDir, "helm")} {
			if err := os.Symlink(target, filepath.Join(dir, filepath.Base(target))); err != nil {
				return fmt.Errorf("link tool: %w", err)
			}
		}
		return nil
	})
}

// kubectlPath prefers the kubectl that was built with the nodes' binaries.
func (b *Builder) kubectlPath(ctx context.Context) (string, error) {
	all, err := b.kubernetes()
	if err != nil {
		return "", err
	}
	key, err := b.componentKey(all)
	if err != nil {
		return "", err
	}
	if entry := all.name + "-" + key; b.Store.Has("bin", entry) {
		return b.Store.Path("bin", entry, "kubectl"), nil
	}
	alone, err := b.kubectl()
	if err != nil {
		return "", err
	}
	dir, err := b.compile(ctx, alone)
	return filepath.Join(dir, "kubectl"), err
}
