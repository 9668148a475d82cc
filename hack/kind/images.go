package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleave-dra/cleave/hack/kind/cluster"
	"github.com/cleave-dra/cleave/hack/kind/engine"
)

func newLoad(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE...",
		Short: "Copy images from Docker into the cluster's nodes",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			return a.exclusively(cmd.Context(), func() error {
				return a.cluster.Load(cmd.Context(), a.name, images)
			})
		},
	}
}

func newAhead(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ahead",
		Short: "Build ahead what `up` and `base-image` will need, unless it can be pulled",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.exclusively(cmd.Context(), func() error {
				if a.pullable(cmd.Context()) {
					return nil
				}
				if _, _, err := a.builder.Base(cmd.Context()); err != nil {
					return err
				}
				_, _, err := a.builder.Node(cmd.Context())
				return err
			})
		},
	}
}

const baseTag = "cleave-base:latest"

func newBaseImage(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "base-image",
		Short: "Make the base image of our containers, as " + baseTag + ", and print its name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.exclusively(cmd.Context(), func() error { return a.baseImage(cmd.Context()) })
		},
	}
}

func (a *app) baseImage(ctx context.Context) error {
	if err := a.engine.Ensure(ctx); err != nil {
		return err
	}
	ref, err := a.pulledBase(ctx)
	if err != nil {
		return err
	}
	if ref == "" {
		if ref, err = a.builtBase(ctx); err != nil {
			return err
		}
	}
	if err := a.engine.Tag(ctx, ref, baseTag); err != nil {
		return fmt.Errorf("tag base image: %w", err)
	}
	_, err = fmt.Fprintln(a.stdout, ref)
	return err
}

// pulledBase returns no name where Docker Hub does not give us the image.
func (a *app) pulledBase(ctx context.Context) (string, error) {
	const public, ref = "debian:bookworm-slim", "cleave-base:bookworm-slim"
	if !engine.RegistryReachable(ctx) {
		return "", ctx.Err()
	}
	if err := a.engine.Pull(ctx, public); err != nil {
		a.log.Printf("cannot pull %s, so the base image is built here: %v", public, err)
		return "", ctx.Err()
	}
	return ref, a.engine.Tag(ctx, public, ref)
}

func (a *app) builtBase(ctx context.Context) (string, error) {
	ref, archive, err := a.builder.Base(ctx)
	if err != nil {
		return "", err
	}
	return ref, a.engine.LoadImage(ctx, ref, archive)
}

func newTools(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "tools",
		Short: "Make sure that kubectl and helm are there, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.exclusively(cmd.Context(), func() error {
				dir, err := a.builder.Tools(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.stdout, dir)
				return err
			})
		},
	}
}

func newKubeconfig(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print where `up` writes the kubeconfig by default",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, cluster.DefaultKubeconfig(a.store, a.name))
			return err
		},
	}
}
