package engine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// Stop ends the daemon if we started it and nobody else's containers run in
// it, waits until it is gone, and removes the bridge that it leaves behind.
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
	e.removeBridge(ctx)
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

// removeBridge is best effort: a bridge without a daemon harms nobody.
func (e *Engine) removeBridge(ctx context.Context) {
	if _, err := os.Stat("/sys/class/net/docker0"); err != nil {
		return
	}
	if _, err := command.Output(ctx, "ip", "link", "delete", "docker0"); err != nil {
		e.Log.Printf("the network device docker0 is left over: %v", err)
	}
}
