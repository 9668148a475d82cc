package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// serveCommand holds the listening socket and keeps a daemon running on it. The
// socket is mounted into containers as a file, so a new one would cut them off:
// the daemon may die and come back, clients wait in the socket's queue meanwhile.
func serveCommand(ctx context.Context, executable string, args []string, stderr io.Writer) error {
	o, err := parseOptions("serve", executable, args, stderr)
	if err != nil {
		return err
	}
	if _, _, err := catalog.LoadServer(o.server); err != nil {
		return err
	}
	if err := o.host.CheckNoHardware(); err != nil {
		return err
	}
	unlock, err := lockState(o.state, "serve.lock", unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return fmt.Errorf("another simulator runs on %s: %w", o.state, err)
	}
	defer unlock()
	socket, err := listen(socketPath(o.root))
	if err != nil {
		return err
	}
	defer os.Remove(socketPath(o.root))
	defer socket.Close()
	return supervise(ctx, executable, args, socket, stderr)
}

// supervise starts the daemon again whenever it ends, until ctx does.
func supervise(ctx context.Context, executable string, args []string, socket *os.File, stderr io.Writer) error {
	logger := klog.FromContext(ctx)
	// The kernel ends the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		child := exec.CommandContext(ctx, executable, append([]string{"daemon"}, args...)...)
		child.Args[0] = "cleave-simhw"
		child.Stdout, child.Stderr = stderr, stderr
		child.ExtraFiles = []*os.File{socket}
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
		child.WaitDelay = 20 * time.Second
		err := child.Run()
		if ctx.Err() != nil {
			return stopped(err)
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == exitRefused {
			return errors.New("the daemon could not start; it has said why")
		}
		logger.Info("The daemon ended, starting it again", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stopped is nil for a daemon that ended as it was told.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// listen makes the socket anew; one that somebody answers on is not taken away.
func listen(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of the socket: %w", err)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen on %s: somebody else does already", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer l.Close()
	unixListener := l.(*net.UnixListener)
	unixListener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, fmt.Errorf("open the socket to everybody: %w", err)
	}
	return unixListener.File()
}

// lockState takes a lock file in the state directory; the lock ends with the
// process.
func lockState(state, name string, how int) (func(), error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(state, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}
