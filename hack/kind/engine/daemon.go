package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/capability"
	"github.com/cleave-dra/cleave/hack/kind/command"
)

const wrapperName = "bounded"

// pidFile is both our record of the daemon and part of its command line: a
// process that names this file is the one that we started, and no other is.
func (e *Engine) pidFile() string { return e.Store.Path("docker", "dockerd.pid") }
func (e *Engine) logFile() string { return e.Store.Path("docker", "dockerd.log") }

// daemonArgs is the daemon's command line. The wrapper is a path, or empty
// where Docker can use runc as it is.
func daemonArgs(pidFile, wrapper string) []string {
	args := []string{"dockerd", "--pidfile", pidFile}
	if wrapper != "" {
		args = append(args, "--add-runtime", wrapperName+"="+wrapper, "--default-runtime", wrapperName)
	}
	return args
}

func (e *Engine) start(ctx context.Context) error {
	if err := os.MkdirAll(e.Store.Path("docker"), 0o755); err != nil {
		return fmt.Errorf("make folder for Docker's files: %w", err)
	}
	if e.ours() != 0 {
		// It is there but does not answer: it is either starting or stopping.
		if err := e.await(ctx, nil); !errors.Is(err, errEnded) {
			return err
		}
	}
	died, err := e.launch(ctx)
	if err != nil {
		return err
	}
	return e.await(ctx, died)
}

// launch starts the daemon. The channel gets a value when the daemon ends.
func (e *Engine) launch(ctx context.Context) (died <-chan error, err error) {
	withheld, err := capability.Withheld()
	if err != nil {
		return nil, err
	}
	wrapper := ""
	if len(withheld) > 0 {
		e.Log.Printf("this host withholds %s: Docker gets a runtime that does without", strings.Join(withheld, ", "))
		if wrapper, err = e.Bounded(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.remember(ctx); err != nil {
		return nil, err
	}
	// The daemon refuses to start over a file of a process that died.
	if err := os.Remove(e.pidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale pid file: %w", err)
	}
	output, err := os.Create(e.logFile())
	if err != nil {
		return nil, fmt.Errorf("make Docker's log file: %w", err)
	}
	defer output.Close()
	args := daemonArgs(e.pidFile(), wrapper)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives us and our terminal
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start dockerd: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// await returns once the daemon answers, or explains why it does not. Without a
// channel it watches a daemon that an earlier run has started.
func (e *Engine) await(ctx context.Context, died <-chan error) error {
	const patience = 90 * time.Second
	defer e.Log.Watch("starting Docker", nil)()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	ticks := time.NewTicker(300 * time.Millisecond)
	defer ticks.Stop()
	for {
		_, err := e.version(ctx)
		if err == nil {
			return nil
		}
		if died == nil && e.ours() == 0 {
			return errEnded
		}
		select {
		case <-ctx.Done():
			return e.explain(errors.Join(context.Cause(ctx), err))
		case err := <-died:
			return e.explain(errors.Join(errEnded, err))
		case <-ticks.C:
		}
	}
}

var errEnded = errors.New("the daemon ended")

func (e *Engine) explain(err error) error {
	return fmt.Errorf("start Docker: %w\nThe end of its log (all of it is in %s):\n%s",
		err, e.logFile(), command.Tail(e.logFile(), 20))
}

// ours returns the process id of the daemon that we started, or 0.
func (e *Engine) ours() int {
	text, err := os.ReadFile(e.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !isOurs(cmdline, e.pidFile()) {
		return 0
	}
	return pid
}

// isOurs recognises the daemon by its /proc/<pid>/cmdline, in which arguments
// end with a zero byte.
func isOurs(cmdline []byte, pidFile string) bool {
	args := bytes.Split(bytes.TrimRight(cmdline, "\x00"), []byte{0})
	if len(args) < 3 || !bytes.HasSuffix(args[0], []byte("dockerd")) {
		return false
	}
	for i, arg := range args[:len(args)-1] {
		if string(arg) == "--pidfile" && string(args[i+1]) == pidFile {
			return true
		}
	}
	return false
}
