package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/progress"
)

// Lock makes runs take turns. The kernel lets go of it when the holder dies.
func (s Store) Lock(ctx context.Context, log *progress.Log) (unlock func(), err error) {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	file, err := os.OpenFile(s.Path("lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := wait(ctx, file, log); err != nil {
		file.Close()
		return nil, err
	}
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "%d", os.Getpid()), 0)
	}
	return func() { file.Close() }, nil
}

func wait(ctx context.Context, file *os.File, log *progress.Log) error {
	var stop func()
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if stop != nil {
				stop()
			}
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if stop == nil {
			stop = log.Watch("waiting for another run (process "+holder(file)+") to finish", nil)
		}
		select {
		case <-ctx.Done():
			stop()
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}

func holder(file *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}
