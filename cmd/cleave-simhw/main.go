// Command cleave-simhw simulates the GPUs of a node for every process on it, and
// is a stand-in for nvidia-smi when called by that name.
package main

import (
	"os"

	"github.com/cleave-dra/cleave/pkg/simhw/command"
)

func main() { os.Exit(command.Run(os.Args, os.Stdout, os.Stderr)) }
