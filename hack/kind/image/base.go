package image

import (
	"context"
	"path/filepath"
)

// baseRootfs is small, has a C library, bash and coreutils, and nothing else.
var baseRootfs = rootfs{name: "base", drop: []string{
	"etc/resolv.conf",
	"usr/lib/*/gconv/*",
	"usr/share/i18n/*",
	"usr/share/zoneinfo/*",
}}

// Base makes the base image of our own containers and of the demo's pods, and
// returns its name and its archive.
func (b *Builder) Base(ctx context.Context) (ref, archive string, err error) {
	key := baseRootfs.key()
	ref = "cleave-base:" + key
	dir, err := b.Store.Build(ctx, "images", "base-"+key, func(dir string) error {
		debian, err := b.debian(ctx, baseRootfs)
		if err != nil {
			return err
		}
		return writeArchive(filepath.Join(dir, "image.tar"), []picture{{
			ref:    ref,
			config: runConfig{Env: []string{searchPath}, Cmd: []string{"/bin/bash"}},
			layers: []string{filepath.Join(debian, "rootfs.tar")},
		}})
	})
	return ref, filepath.Join(dir, "image.tar"), err
}
