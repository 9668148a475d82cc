// Demo runs one scenario after the other in a cluster with Cleave, checks each
// step, and prints what every pod got and sees.
//
//	go run ./demo                        # all scenarios
//	go run ./demo --only mig-memory --keep   # one, left running to look around
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	kubeconfig := flags.String("kubeconfig", "", "the cluster's kubeconfig file; default is kubectl's")
	image := flags.String("image", "", "image for the pods instead of the one in the manifests; it needs bash and sleep")
	only := flags.StringSlice("only", nil, "run only these scenarios, by name or number")
	keep := flags.Bool("keep", false, "leave the pods of the last scenario running")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long each step may take")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		return 2
	}
	chosen, err := choose(scenarios(), *only)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := cluster.Connect(*kubeconfig)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	show := &show{cluster: c, out: stdout, image: *image, keep: *keep, timeout: *timeout}
	if err := show.run(ctx, chosen); err != nil {
		fmt.Fprintf(stderr, "\nFAIL %v\n", err)
		return 1
	}
	return 0
}
