package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

const suite = "bookworm"

// nodePackages is what systemd, the kubelet, containerd and kind's scripts call.
var nodePackages = []string{
	"ca-certificates", "conntrack", "curl", "dbus", "ethtool", "iproute2", "iptables", "jq",
	"kmod", "mount", "nftables", "procps", "runc", "socat", "systemd", "systemd-sysv",
}

// rubbish is removed from every root file system: nothing reads it in a container.
var rubbish = []string{
	"usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*",
	"usr/share/lintian/*", "usr/share/bash-completion/*", "var/cache/*/*", "var/lib/apt/lists/*",
	"var/log/*",
}

// rootfs is a Debian root file system in the store.
type rootfs struct {
	name     string
	packages []string
	drop     []string                      // globs to remove, besides rubbish
	extract  func(root, into string) error // what else to keep, or nil
}

// layout changes when the code here makes something else of the same inputs.
const layout = "1"

func (fs rootfs) key() string {
	lists := []string{runtime.GOARCH, suite, layout}
	for _, list := range [][]string{fs.packages, fs.drop, rubbish} {
		lists = append(lists, strings.Join(list, ","))
	}
	return store.NewKey(lists...).String()
}

// debian returns the store folder of a root file system, with rootfs.tar in it.
func (b *Builder) debian(ctx context.Context, fs rootfs) (string, error) {
	return b.Store.Build(ctx, "rootfs", fs.name+"-"+fs.key(), func(dir string) error {
		root := filepath.Join(dir, "root")
		if err := b.debootstrap(ctx, fs, root); err != nil {
			return err
		}
		if err := remove(root, append(rubbish, fs.drop...)); err != nil {
			return err
		}
		if fs.extract != nil {
			if err := fs.extract(root, dir); err != nil {
				return err
			}
		}
		err := b.Run.Run(ctx, command.Spec{
			Label: "packing the " + fs.name + " file system",
			Args: []string{"tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--sort=name",
				"-C", root, "-cf", filepath.Join(dir, "rootfs.tar"), "."},
		})
		if err != nil {
			return err
		}
		return store.RemoveTree(root)
	})
}

// debootstrap runs in a mount namespace of its own, so that what it mounts is
// gone when it ends, however it ends.
func (b *Builder) debootstrap(ctx context.Context, fs rootfs, root string) error {
	if _, err := exec.LookPath("debootstrap"); err != nil {
		if err := b.Packages(ctx, "debootstrap", "debian-archive-keyring"); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can unpack Debian packages, which the images are made of; " +
			"run this as root, or where container registries can be reached")
	}
	args := []string{"unshare", "--mount", "--propagation", "private",
		"debootstrap", "--variant=minbase", "--merged-usr", "--arch=" + runtime.GOARCH}
	if len(fs.packages) > 0 {
		args = append(args, "--include="+strings.Join(fs.packages, ","))
	}
	return b.Run.Run(ctx, command.Spec{
		Label: "installing Debian packages for the " + fs.name,
		Args:  append(args, suite, root, b.Mirror),
		Env:   []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"},
	})
}

func remove(root string, globs []string) error {
	for _, glob := range globs {
		paths, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			return fmt.Errorf("trim %s: %w", glob, err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("trim root file system: %w", err)
			}
		}
	}
	return nil
}
