// Command bounded stands in front of runc on hosts whose bounding set lacks
// capabilities. It takes those capabilities out of what runc is asked to
// apply, then becomes runc.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/cleave-dra/cleave/hack/kind/capability"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if target, ok := capability.TargetOf(args); ok {
		if err := rewrite(target); err != nil {
			fmt.Fprintf(os.Stderr, "bounded: %v\n", err)
			return 1
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		fmt.Fprintf(os.Stderr, "bounded: find runc: %v\n", err)
		return 1
	}
	err = syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
	fmt.Fprintf(os.Stderr, "bounded: start %s: %v\n", runc, err)
	return 1
}

func rewrite(target capability.Target) error {
	config, err := os.ReadFile(target.Path)
	if err != nil {
		return fmt.Errorf("read what runc is to start: %w", err)
	}
	bounding, err := capability.Bounding()
	if err != nil {
		return err
	}
	bound := bounding.BoundSpec
	if target.Process {
		bound = bounding.BoundProcess
	}
	if config, err = bound(config); err != nil {
		return fmt.Errorf("rewrite %s: %w", target.Path, err)
	}
	return replace(target.Path, config)
}

// replace swaps the file in one step, keeping its mode: the caller may read it
// at any time.
func replace(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".bounded-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err := temp.Write(content); err != nil {
		temp.Close()
		return err
	}
	if err := temp.Chmod(info.Mode().Perm()); err != nil {
		temp.Close()
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
