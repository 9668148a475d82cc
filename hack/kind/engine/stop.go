package engine

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// Stop ends the daemon if we started it and nobody else's containers run in
// it, waits until it is gone, and takes back what it leaves behind.
func (e *Engine) Stop(ctx context.Context) error {
	pid := e.ours()
	if pid == 0 {
		return nil
	}
	running, err := command.Output(ctx, "docker", "ps", "--format", "{{.Names}}")
	if err == nil && running != "" {
		e.Log.Printf("Docker stays, because other containers run in it: %s", strings.Join(strings.Fields(running), ", "))
		return nil
	}
	defer e.Log.Watch(fmt.Sprintf("stopping Docker (process %d)", pid), nil)()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop Docker: %w", err)
	}
	if err := e.gone(ctx); err != nil {
		return err
	}
	if err := e.restore(ctx); err != nil {
		e.Log.Printf("Docker is gone, but not all that it changed: %v", err)
	}
	return nil
}

func (e *Engine) gone(ctx context.Context) error {
	const patience = 60 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("still there after %s", patience))
	defer cancel()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for e.ours() != 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop Docker: %w; its log is in %s", context.Cause(ctx), e.logFile())
		case <-ticks.C:
		}
	}
	return nil
}
