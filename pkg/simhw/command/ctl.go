package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// ctlCommand is one command of ctl: it asks the daemon, or changes the hardware
// behind its clients' backs.
type ctlCommand struct {
	// name is one word or two.
	name string
	// arguments and does are for the usage.
	arguments, does string
	// flags declares flags; what it returns makes the request from them. May be
	// nil if request says all.
	flags   func(*flag.FlagSet) func() (request, error)
	request request
}

// ctlCommands are all, in the order of the usage.
func ctlCommands() []ctlCommand {
	var out []ctlCommand
	for _, group := range [][]ctlCommand{stateCommands(), gpuCommands(), slotCommands(), processCommands(), driverCommands(), fileCommands(), faultCommands(), healthCommands(), nicCommands()} {
		out = append(out, group...)
	}
	return out
}

func ctlUsage(w io.Writer) {
	fmt.Fprint(w, "Usage: cleave-simhw ctl COMMAND --root DIR\nDIR is the driver root of the simulated node ($CLEAVE_SIMHW_ROOT if left out). Each command takes -h.\n\n")
	for _, c := range ctlCommands() {
		fmt.Fprintf(w, "  %-60s %s\n", strings.TrimSpace(c.name+" "+c.arguments), c.does)
	}
	fmt.Fprint(w, "\nGPUs are given by their slot, which is their \"index\" in the list; NICs by PCI address, network interface or RDMA device.\n")
}

// findCtl takes the name off the arguments.
func findCtl(args []string) (ctlCommand, []string, bool) {
	for words := min(2, len(args)); words > 0; words-- {
		for _, c := range ctlCommands() {
			if c.name == strings.Join(args[:words], " ") {
				return c, args[words:], true
			}
		}
	}
	return ctlCommand{}, nil, false
}

func runCtl(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, rest, ok := findCtl(args)
	if !ok {
		ctlUsage(stderr)
		return errUsage
	}
	fs := flag.NewFlagSet("cleave-simhw ctl "+c.name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "Usage: cleave-simhw ctl %s --root DIR\n%s.\n\n", strings.TrimSpace(c.name+" "+c.arguments), upper(c.does))
		fs.PrintDefaults()
	}
	root := fs.String("root", os.Getenv("CLEAVE_SIMHW_ROOT"), "driver root `directory` of the simulated node; default is $CLEAVE_SIMHW_ROOT")
	build := func() (request, error) { return c.request, nil }
	if c.flags != nil {
		build = c.flags(fs)
	}
	if err := fs.Parse(rest); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: cleave-simhw ctl %s -h tells the flags", fs.Arg(0), c.name)
	case *root == "":
		return errors.New("flag --root is required, or the environment variable CLEAVE_SIMHW_ROOT")
	}
	r, err := build()
	if err != nil {
		return fmt.Errorf("%w: cleave-simhw ctl %s -h tells the flags", err, c.name)
	}
	return r.send(ctx, *root, stdout)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
