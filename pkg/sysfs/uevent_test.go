package sysfs_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/cleave-dra/cleave/pkg/sysfs"
)

// TestUevents lets the kernel say that a harmless device of this machine has changed.
func TestUevents(t *testing.T) {
	const file, subsystem, patience = "/sys/class/mem/null/uevent", "mem", 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- sysfs.New(t.TempDir()).Uevents(ctx, func(of string) {
			if of == subsystem {
				select {
				case heard <- of:
				default:
				}
			}
		})
	}()
	again := time.NewTicker(50 * time.Millisecond) // the first one may come before the socket is there
	defer again.Stop()
	for said := false; !said; {
		if err := os.WriteFile(file, []byte("change"), 0); err != nil {
			t.Skipf("only root, and not in every container, can make the kernel say something: %v", err)
		}
		select {
		case <-heard:
			said = true
		case err := <-done:
			t.Fatalf("listening ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("nothing was heard of %s", file)
		case <-again.C:
		}
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("listening ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("listening does not end with its context")
	}
}
