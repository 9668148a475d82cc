package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cleave-dra/cleave/hack/kind/cluster"
	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/engine"
	"github.com/cleave-dra/cleave/hack/kind/image"
	"github.com/cleave-dra/cleave/hack/kind/progress"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

// app is what all subcommands share.
type app struct {
	stdout io.Writer
	log    *progress.Log

	// from flags
	cache  string
	source string
	mirror string
	name   string

	// from setUp
	store   store.Store
	engine  *engine.Engine
	builder *image.Builder
	cluster *cluster.Cluster
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdout: stdout, log: progress.New(stderr)}
	root := &cobra.Command{
		Use:               "kind",
		Short:             "Make and remove a Kubernetes cluster to try Cleave on",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.setUp() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.cache, "cache", defaultCache(), "folder for what is expensive to make ($CLEAVE_CACHE)")
	flags.StringVar(&a.source, "source", "", "folder with this program's sources (default: found)")
	flags.StringVar(&a.mirror, "debian-mirror", "http://deb.debian.org/debian", "where Debian packages come from")
	flags.StringVar(&a.name, "name", "cleave", "name of the cluster")
	root.AddCommand(newUp(a), newDown(a), newLoad(a), newAhead(a), newBaseImage(a), newTools(a), newKubeconfig(a))
	return root
}

func defaultCache() string {
	if dir := os.Getenv("CLEAVE_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache"
	}
	return filepath.Join(base, "cleave")
}

func (a *app) setUp() error {
	cache, err := filepath.Abs(a.cache)
	if err != nil {
		return fmt.Errorf("find cache folder: %w", err)
	}
	if a.source, err = findSource(a.source); err != nil {
		return err
	}
	// Root's PATH may lack the folders of daemons.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin"); err != nil {
		return fmt.Errorf("extend PATH: %w", err)
	}
	a.store = store.Store{Root: cache}
	run := &command.Runner{Log: a.log, Logs: a.store.Path("logs")}
	a.engine = &engine.Engine{Store: a.store, Run: run, Log: a.log}
	a.builder = &image.Builder{
		Store: a.store, Run: run, Log: a.log, Source: a.source, Mirror: a.mirror, Packages: a.engine.Packages,
	}
	a.engine.Bounded = a.builder.Bounded
	a.cluster = cluster.New(a.store, a.log)
	return nil
}

// findSource looks where this program is usually run from.
func findSource(given string) (string, error) {
	candidates := []string{".", "hack/kind", "../../hack/kind"}
	if given != "" {
		candidates = []string{given}
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "image", "kubernetes", "go.mod")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", errors.New("cannot find this program's sources; run it with `go run -C hack/kind .`, or name them with --source")
}

// exclusively runs do while no other run may change anything.
func (a *app) exclusively(ctx context.Context, do func() error) error {
	unlock, err := a.store.Lock(ctx, a.log)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.store.Sweep(); err != nil {
		return err
	}
	return do()
}
