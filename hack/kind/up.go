package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/cleave-dra/cleave/hack/kind/capability"
	"github.com/cleave-dra/cleave/hack/kind/cluster"
	"github.com/cleave-dra/cleave/hack/kind/engine"
)

func newUp(a *app) *cobra.Command {
	var options cluster.Options
	var nodeImage string
	var gates map[string]string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make the cluster, or check the one that is there",
		Long: "Make the cluster, or check the one that is there.\n\n" +
			"Docker is installed (Debian, Ubuntu) and started if need be. The path of the kubeconfig goes to standard output.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Name = a.name
			var err error
			if options.FeatureGates, err = cluster.ParseFeatureGates(gates); err != nil {
				return err
			}
			return a.up(cmd.Context(), options, nodeImage)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Workers, "workers", 2, "number of worker nodes")
	flags.StringSliceVar(&options.Simulated, "simulated", []string{"dgx-h100", "mixed"},
		"simulated server of each worker, in order: the value of its label "+cluster.SimulatedLabel)
	flags.StringToStringVar(&gates, "feature-gates", nil,
		"Kubernetes' feature gates that are not to be as usual, for example DRADeviceTaints=false,DRADeviceTaintRules=false")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "file to write (default: in the cache, see `kubeconfig`)")
	flags.StringVar(&nodeImage, "node-image", "",
		"kindest/node image to use (default: kind's own where Docker Hub answers, else ours, built here)")
	return cmd
}

func (a *app) up(ctx context.Context, options cluster.Options, nodeImage string) error {
	if options.Kubeconfig == "" {
		options.Kubeconfig = cluster.DefaultKubeconfig(a.store, options.Name)
	}
	var err error
	if options.Kubeconfig, err = filepath.Abs(options.Kubeconfig); err != nil {
		return fmt.Errorf("find kubeconfig: %w", err)
	}
	if err := options.Validate(); err != nil {
		return err
	}
	return a.exclusively(ctx, func() error {
		if err := a.engine.Ensure(ctx); err != nil {
			return err
		}
		if err := a.engine.RaiseLimits(); err != nil {
			return err
		}
		image, err := a.nodeImage(ctx, nodeImage)
		if err != nil {
			return err
		}
		tools, err := a.builder.Tools(ctx)
		if err != nil {
			return err
		}
		if err := a.cluster.Up(ctx, options, image); err != nil {
			return err
		}
		if err := a.forget(ctx, image); err != nil {
			return err
		}
		a.log.Printf("cluster %s is ready; kubectl and helm are in %s", options.Name, tools)
		_, err = fmt.Fprintln(a.stdout, options.Kubeconfig)
		return err
	})
}

// nodeImage makes sure that Docker has the image of the nodes.
func (a *app) nodeImage(ctx context.Context, given string) (cluster.Image, error) {
	if given != "" {
		return cluster.Image{Ref: given}, a.engine.Pull(ctx, given)
	}
	if a.pullable(ctx) {
		err := a.engine.Pull(ctx, defaults.Image)
		if err == nil || ctx.Err() != nil {
			return cluster.Image{Ref: defaults.Image}, err
		}
		a.log.Printf("cannot pull kind's node image, so it is built here: %v", err)
	}
	ref, archive, err := a.builder.Node(ctx)
	if err != nil {
		return cluster.Image{}, err
	}
	return cluster.Image{Ref: ref, Own: true}, a.engine.LoadImage(ctx, ref, archive)
}

// forget removes node images of earlier versions of this program: each takes
// more than a gigabyte, twice.
func (a *app) forget(ctx context.Context, current cluster.Image) error {
	if !current.Own {
		return nil
	}
	repository, key, _ := strings.Cut(current.Ref, ":")
	if err := a.engine.RemoveImages(ctx, repository, current.Ref); err != nil {
		return err
	}
	return a.store.Keep("images", "node-", key)
}

// pullable says whether the public node image is an option. Its containerd
// does not start where the host withholds capabilities.
func (a *app) pullable(ctx context.Context) bool {
	if withheld, err := capability.Withheld(); err == nil && len(withheld) > 0 {
		return false
	}
	return engine.RegistryReachable(ctx)
}
