// Package command runs other programs so that they can be watched, stopped and
// understood when they fail.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/progress"
)

// patience is how long a program gets to end by itself after SIGTERM.
const patience = 10 * time.Second

// Spec is one program to run.
type Spec struct {
	Label  string // what it does, for people: "building etcd"
	Args   []string
	Dir    string
	Env    []string // added to our own
	Stdin  io.Reader
	Stdout io.Writer // nil: into the log file with stderr
}

// Runner runs programs and keeps their output in a folder.
type Runner struct {
	Log  *progress.Log
	Logs string // folder for log files
}

// Run announces the program, waits for it and explains a failure.
func (r *Runner) Run(ctx context.Context, spec Spec) error {
	output, err := r.open(spec)
	if err != nil {
		return err
	}
	defer output.Close()
	stop := r.Log.Watch(spec.Label, func() string { return lastLine(output.Name()) })
	defer stop()
	cmd := Prepare(ctx, spec.Args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Dir, spec.Stdin, output, output
	cmd.Env = append(os.Environ(), spec.Env...)
	if spec.Stdout != nil {
		cmd.Stdout = spec.Stdout
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", spec.Label, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w\nThe end of its output (all of it is in %s):\n%s",
			spec.Label, strings.Join(spec.Args, " "), err, output.Name(), Tail(output.Name(), 20))
	}
	return nil
}

func (r *Runner) open(spec Spec) (*os.File, error) {
	if err := os.MkdirAll(r.Logs, 0o755); err != nil {
		return nil, fmt.Errorf("make folder for logs: %w", err)
	}
	output, err := os.Create(filepath.Join(r.Logs, slug(spec.Label)+".log"))
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	fmt.Fprintf(output, "+ %s\n", strings.Join(spec.Args, " "))
	return output, nil
}

// Prepare makes a command whose whole process group ends with the context, and
// which does not outlive us even when we are killed.
func Prepare(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(patience, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return syscall.Kill(group, syscall.SIGTERM)
	}
	cmd.WaitDelay = patience
	return cmd
}

// Output runs a short program quietly and returns its trimmed standard output.
func Output(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := Prepare(ctx, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), errors.Join(err, said(stderr.String())))
	}
	return strings.TrimSpace(string(out)), nil
}

func said(stderr string) error {
	if stderr = strings.TrimSpace(stderr); stderr == "" {
		return nil
	}
	return errors.New(stderr)
}

func slug(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '-'
	}, label)
}
