// Command cleave-filter judges devices by a CEL expression. cleave-node runs it when a
// filter is configured and its hardware has changed: a filter.Question on standard
// input, a filter.Answer on standard output.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Stdin, os.Stdout, os.Stderr)) }

func run(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := answer(context.Background(), stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "cleave-filter:", err)
		return 1
	}
	return 0
}
