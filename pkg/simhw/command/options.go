package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// errUsage is for command lines that the flag package has complained about.
var errUsage = errors.New("wrong usage")

// options are the flags of serve, which its child gets as they are.
type options struct {
	root, server, state, seed, libDir string
	latencyScale                      float64
	inUse                             time.Duration
	virtualization                    string
	minors                            []int
	minorsMove                        bool
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
	fs.DurationVar(&o.inUse, "in-use-after-destroy", 0, "`time` that a GPU instance is still in use after its compute instance is gone; tenths of a second have been seen")
	fs.StringVar(&o.virtualization, "virtualization", string(simhw.BareMetal), "`kind` of machine: none, passthrough (no GPU reset) or vgpu (no MIG)")
	fs.Func("minors", "comma-separated `numbers` N of /dev/nvidiaN, one for each GPU; by default those of the catalog", func(s string) error {
		for _, text := range strings.Split(s, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			o.minors = append(o.minors, n)
		}
		return nil
	})
	fs.BoolVar(&o.minorsMove, "minors-move", false, "give a GPU another minor whenever its MIG mode changes")
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
	if o.latencyScale < 0 || o.inUse < 0 {
		return o, fmt.Errorf("flags --latency-scale and --in-use-after-destroy must not be negative: %w", errRefused)
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

// latency is that of real GPUs, scaled, and of what tests ask for as it is.
func (o options) latency() simhw.Latency {
	l := simhw.DefaultLatency().Scale(o.latencyScale)
	l.Release = o.inUse
	return l
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
