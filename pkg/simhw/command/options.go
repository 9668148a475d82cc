package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// errUsage is for command lines that the flag package has complained about.
var errUsage = errors.New("wrong usage")

// options are the flags of serve, which its child gets as they are.
type options struct {
	root, server, state, seed, libDir string
	latencyScale                      float64
	host                              tree.Host
}

func parseOptions(name, executable string, args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("cleave-simhw "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	klog.InitFlags(fs)
	fs.StringVar(&o.root, "root", "", "`directory` that becomes the driver root (required)")
	fs.StringVar(&o.server, "server", "", "`name` of the server to simulate, from the catalog (required)")
	fs.StringVar(&o.state, "state", "", "`directory` that keeps the hardware's state over restarts (required)")
	fs.StringVar(&o.seed, "seed", "", "`text` that the GPUs' UUIDs are made from; by default random, once for a state directory")
	fs.StringVar(&o.libDir, "lib-dir", defaultLibDir(executable), "`directory` with libnvidia-ml.so and libcuda.so as pkg/simhw/shim/build.sh makes them")
	fs.Float64Var(&o.latencyScale, "latency-scale", 1, "`factor` on how long changes take; 0 makes them immediate")
	fs.StringVar(&o.host.Proc, "host-proc", "/proc", "`directory` of the kernel's own /proc")
	fs.StringVar(&o.host.Sys, "host-sys", "/sys", "`directory` of the kernel's own /sys")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: %w", fs.Arg(0), errRefused)
	}
	for _, required := range []struct{ flag, value string }{{"root", o.root}, {"server", o.server}, {"state", o.state}} {
		if required.value == "" {
			return o, fmt.Errorf("flag --%s is required: %w", required.flag, errRefused)
		}
	}
	if o.latencyScale < 0 {
		return o, fmt.Errorf("flag --latency-scale is %v, must not be negative: %w", o.latencyScale, errRefused)
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, fmt.Errorf("resolve --root: %w", err)
	}
	return o, nil
}

// defaultLibDir is beside the program, as built, or where the image has it.
func defaultLibDir(executable string) string {
	beside := filepath.Join(filepath.Dir(executable), "shim")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	return filepath.Join(filepath.Dir(executable), "..", "lib", "cleave-simhw")
}

// socketPath is one that CDI carries into containers: it mounts the persistence
// daemon's socket.
func socketPath(root string) string {
	return filepath.Join(root, "run", "nvidia-persistenced", "socket")
}

// controlPath is one that it does not.
func controlPath(root string) string {
	return filepath.Join(root, "run", "cleave-simhw", "control")
}
