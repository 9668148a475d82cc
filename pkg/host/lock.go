package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// locks has one lock per device, GPU or NIC. Goroutines of one process wait at a channel,
// processes at a file lock, which the kernel releases when its holder dies.
type locks struct {
	dir  string
	mu   sync.Mutex
	held map[hardware.PCIAddress]chan struct{}
}

func newLocks(dir string) *locks {
	return &locks{dir: dir, held: map[hardware.PCIAddress]chan struct{}{}}
}

// take locks devices in the order given, which is that of their addresses for every
// caller, so that no two can wait for each other.
func (l *locks) take(ctx context.Context, devices []hardware.PCIAddress) (func(), error) {
	var release []func()
	unlock := func() {
		for i := len(release) - 1; i >= 0; i-- {
			release[i]()
		}
	}
	for _, addr := range devices {
		r, err := l.one(ctx, addr)
		if err != nil {
			unlock()
			return nil, fmt.Errorf("lock %s: %w", addr, err)
		}
		release = append(release, r)
	}
	return unlock, nil
}

func (l *locks) one(ctx context.Context, addr hardware.PCIAddress) (func(), error) {
	l.mu.Lock()
	ch, ok := l.held[addr]
	if !ok {
		ch = make(chan struct{}, 1)
		l.held[addr] = ch
	}
	l.mu.Unlock()

	select {
	case ch <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("another claim on this device is still being worked on: %w", context.Cause(ctx))
	}
	file, err := l.file(ctx, addr)
	if err != nil {
		<-ch
		return nil, err
	}
	return func() { _ = file.Close(); <-ch }, nil
}

// file takes the device's lock file. flock(2) knows no deadline, so it waits in a
// goroutine of its own, which lets the lock go again if nobody waits any more.
func (l *locks) file(ctx context.Context, addr hardware.PCIAddress) (*os.File, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make lock directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(l.dir, string(addr)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	got := make(chan error, 1)
	go func() { got <- flock(f) }()
	select {
	case err := <-got:
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return f, nil
	case <-ctx.Done():
		go func() { <-got; _ = f.Close() }()
		return nil, fmt.Errorf("another process on this node holds it: %w", context.Cause(ctx))
	}
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("flock %s: %w", f.Name(), err)
		}
	}
}
