// Package command is the command line of the simulated hardware: the daemon, the
// requests to it, and the stand-in for nvidia-smi.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/simhw/smi"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3 // the daemon cannot start, and trying again would not help
)

const usage = `Usage:
  cleave-simhw serve --root DIR --server NAME --state DIR   simulate the GPUs and NICs of a node
  cleave-simhw ctl COMMAND --root DIR                       ask or change a simulated node
  nvidia-smi                                                (as a program of that name)
Each takes -h.
`

// Run is the program: args[0] decides whether it is nvidia-smi.
func Run(args []string, stdout, stderr io.Writer) int {
	executable, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "cleave-simhw: find own executable:", err)
		return exitFailed
	}
	if filepath.Base(args[0]) == "nvidia-smi" {
		return smi.Run(executable, args[1:], stdout, stderr)
	}
	if len(args) < 2 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx = klog.NewContext(ctx, klog.Background())
	switch args[1] {
	case "serve":
		err = serveCommand(ctx, executable, args[2:], stderr)
	case "daemon": // what serve starts and starts again
		err = daemonCommand(ctx, executable, args[2:], stderr)
	case "ctl":
		err = runCtl(ctx, args[2:], stdout, stderr)
	case "-h", "--help", "help":
		fmt.Fprint(stdout, usage)
		return exitOK
	default:
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	return exitCode(err, stderr)
}

// errRefused wraps what makes it useless to start the daemon again.
var errRefused = errors.New("cannot start")

func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage // the flag package has said why
	}
	fmt.Fprintln(stderr, "cleave-simhw:", err)
	if errors.Is(err, errRefused) {
		return exitRefused
	}
	return exitFailed
}
