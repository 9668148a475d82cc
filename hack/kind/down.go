package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cleave-dra/cleave/hack/kind/cluster"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

func newDown(a *app) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster, and stop Docker if `up` started it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.exclusively(cmd.Context(), func() error { return a.down(cmd.Context(), purge) })
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cached images and programs too")
	return cmd
}

func (a *app) down(ctx context.Context, purge bool) error {
	names, err := cluster.Names(a.store)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	rest := 0
	for _, name := range names {
		if name != a.name {
			rest++
			continue
		}
		// The containers outlive a stopped Docker, and only Docker can remove them.
		if err := a.engine.Ensure(ctx); err != nil {
			return err
		}
		if err := a.cluster.Delete(ctx, name); err != nil {
			return err
		}
		a.log.Printf("cluster %s is gone", name)
	}
	if rest > 0 {
		if purge {
			return errors.New("other clusters of this program are still there; remove them before --purge")
		}
		a.log.Printf("Docker stays for the other clusters")
		return nil
	}
	if purge {
		if err := a.purgeImages(ctx); err != nil {
			return err
		}
	}
	if err := a.engine.RestoreLimits(); err != nil {
		return err
	}
	if err := a.engine.Stop(ctx); err != nil {
		return err
	}
	if purge {
		return a.purgeCache()
	}
	return nil
}

func (a *app) purgeImages(ctx context.Context) error {
	if !a.engine.Running(ctx) {
		a.log.Printf("Docker is not running, so its images stay")
		return nil
	}
	for _, repository := range []string{"cleave-node", "cleave-base"} {
		if err := a.engine.RemoveImages(ctx, repository, ""); err != nil {
			return err
		}
	}
	return nil
}

// purgeCache removes the folders that this program makes, by name: the user may
// have pointed it at a folder with other things in it.
func (a *app) purgeCache() error {
	for _, dir := range []string{"bin", "clusters", "docker", "images", "logs", "rootfs", "tmp", "tools"} {
		if err := store.RemoveTree(a.store.Path(dir)); err != nil {
			return err
		}
	}
	if err := os.Remove(a.store.Path("lock")); err != nil {
		return fmt.Errorf("remove lock file: %w", err)
	}
	a.log.Printf("the cache in %s is empty", a.store.Root)
	return nil
}
