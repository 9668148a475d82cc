// Command cleave-node is Cleave's kubelet plugin: it publishes a node's GPUs and
// MIG slices and makes what the scheduler allocated.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	runtime.MemProfileRate = 0 // nobody can read the profile, and its tables cost over 1 MiB
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stdout)
	if err == nil && opts != nil {
		err = opts.serve(stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "cleave-node:", err)
		return 1
	}
	return 0
}
