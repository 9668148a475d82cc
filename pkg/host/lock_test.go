package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const (
	gpuA = hardware.PCIAddress("0000:1b:00.0")
	gpuB = hardware.PCIAddress("0000:43:00.0")
)

func mustTake(t *testing.T, l *locks, gpus ...hardware.PCIAddress) func() {
	t.Helper()
	unlock, err := l.take(t.Context(), gpus)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// expectBusy asserts that the GPU cannot be locked now.
func expectBusy(t *testing.T, l *locks, gpu hardware.PCIAddress) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := l.take(ctx, []hardware.PCIAddress{gpu})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), string(gpu)) {
		t.Fatalf("lock of a held GPU: got %v, want a deadline that names %s", err, gpu)
	}
}

func TestLockExcludesGoroutines(t *testing.T) {
	l := newLocks(t.TempDir())
	unlock := mustTake(t, l, gpuA)
	expectBusy(t, l, gpuA)
	mustTake(t, l, gpuB)() // another GPU is free
	unlock()
	mustTake(t, l, gpuA)()
}

// TestLockExcludesProcesses lets another process hold the file.
func TestLockExcludesProcesses(t *testing.T) {
	dir := t.TempDir()
	l := newLocks(dir)
	mustTake(t, l, gpuA)() // makes the file
	other := exec.CommandContext(t.Context(), "flock", dir+"/"+string(gpuA)+".lock", "sh", "-c", "echo held; read x")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	expectBusy(t, l, gpuA)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Logf("holder ended: %v", err) // its read ends without a line
	}
	mustTake(t, l, gpuA)()
}

// TestLockReleasesAllOnFailure: what was taken before the GPU that is busy must
// not stay locked.
func TestLockReleasesAllOnFailure(t *testing.T) {
	l := newLocks(t.TempDir())
	unlock := mustTake(t, l, gpuB)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.take(ctx, []hardware.PCIAddress{gpuA, gpuB}); err == nil {
		t.Fatal("took a GPU that is held")
	}
	mustTake(t, l, gpuA)()
	unlock()
}

func TestLockUnderLoad(t *testing.T) {
	l := newLocks(t.TempDir())
	var inside, worst atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				unlock, err := l.take(t.Context(), []hardware.PCIAddress{gpuA, gpuB})
				if err != nil {
					t.Error(err)
					return
				}
				worst.Store(max(worst.Load(), inside.Add(1)))
				inside.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if worst.Load() != 1 {
		t.Errorf("%d goroutines held the same locks at once", worst.Load())
	}
}

func TestLockNamesWhatIsWrong(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newLocks(file).take(t.Context(), []hardware.PCIAddress{gpuA})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("lock below a file: got %v, want an error that names it", err)
	}
}
