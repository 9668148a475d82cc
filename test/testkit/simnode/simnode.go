// Package simnode gives a test a node with simulated GPUs and NICs: the real daemon in a
// process of its own, with its file tree and its libnvidia-ml.so.1.
package simnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// patience is how long a daemon may take to come up or go down.
const patience = 30 * time.Second

// place is the one directory of this process in which nodes live, one after the
// other. go-nvml's calls are bound to the first libnvidia-ml.so.1 that a process
// loads, for good, and that one finds its node by its own path. So all nodes of a
// process have the same path, and a second one waits until the first is gone.
var place struct {
	sync.Mutex
	dir string
}

// Node is a running simulated node.
type Node struct {
	// Root is the driver root; it is also what holds dev.
	Root string
	// Library is the libnvidia-ml.so.1 below it.
	Library string
	// DevRoot is the directory that holds dev.
	DevRoot string
	// ProcRoot and SysRoot stand for /proc and /sys.
	ProcRoot, SysRoot string
	// SMI is the stand-in for nvidia-smi below the root.
	SMI string
	// Server is what is simulated; its Node method says what discovery must find.
	Server catalog.Server

	t       testing.TB
	state   string
	program string
	args    []string
	command *exec.Cmd
	log     bytes.Buffer
	done    chan error
}

// Option changes how a node is started.
type Option func(*[]string)

// WithLatency makes changes take as long as on real GPUs, times a factor. Without
// it they take no time.
func WithLatency(factor float64) Option {
	return func(args *[]string) { *args = append(*args, fmt.Sprintf("--latency-scale=%g", factor)) }
}

// WithFlags starts it with flags of cleave-simhw serve.
func WithFlags(flags ...string) Option {
	return func(args *[]string) { *args = append(*args, flags...) }
}

// Start runs a node of the catalog until the test ends. GPU UUIDs are those of
// the server's Node method. It skips the test for users who may not make device
// nodes, and waits while another test of the process has a node.
func Start(t testing.TB, server string, options ...Option) *Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("simulated GPUs are real device nodes, and only root can make them (mknod)")
	}
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	program, libraries := build(t)
	place.Lock()
	t.Cleanup(place.Unlock)
	if place.dir == "" {
		place.dir, err = os.MkdirTemp("", "simnode")
		if err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(place.dir, "root")
	n := &Node{
		Root: root, Library: filepath.Join(root, tree.LibraryPath()), DevRoot: root,
		ProcRoot: filepath.Join(root, "proc"), SysRoot: filepath.Join(root, "sys"), SMI: filepath.Join(root, "usr/bin/nvidia-smi"),
		Server: s, t: t, state: filepath.Join(place.dir, "state"), program: program,
	}
	t.Cleanup(n.remove)
	n.args = []string{"serve", "--server=" + server, "--seed=" + server, "--root=" + n.Root, "--state=" + n.state, "--lib-dir=" + libraries, "--latency-scale=0"}
	n.run(options)
	t.Cleanup(n.stop)
	n.Await()
	return n
}

// Restart ends the whole simulator, as when its pod is replaced, and starts it
// again on the state that it left.
func (n *Node) Restart(options ...Option) {
	n.t.Helper()
	n.stop()
	n.run(options)
	n.Await()
}

// run starts the program; its end is awaited elsewhere.
func (n *Node) run(options []Option) {
	n.t.Helper()
	args := slices.Clone(n.args)
	for _, o := range options {
		o(&args)
	}
	n.command = exec.Command(n.program, args...)
	n.command.Stdout, n.command.Stderr = &n.log, &n.log
	// No node outlives a test process that crashes.
	n.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	n.done = make(chan error, 1)
	if err := n.command.Start(); err != nil {
		n.t.Fatalf("start simulated node: %v", err)
	}
	go func(command *exec.Cmd, done chan error) { done <- command.Wait() }(n.command, n.done)
}

// stop ends the node and reports what went wrong in it.
func (n *Node) stop() {
	if err := n.command.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Errorf("stop simulated node: %v", err)
	}
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("simulated node ended: %v", err)
		}
	case <-time.After(patience):
		n.t.Error("the simulated node does not end; killing it")
		_ = n.command.Process.Kill()
		<-n.done
	}
	if log := n.log.String(); n.t.Failed() || strings.Contains(log, "DATA RACE") {
		n.t.Errorf("log of the simulated node:\n%s", log)
	}
}

// remove leaves the empty place for the next node.
func (n *Node) remove() {
	if err := os.RemoveAll(place.dir); err != nil {
		n.t.Errorf("remove simulated node: %v", err)
	}
}

// Await returns once the daemon answers.
func (n *Node) Await() {
	n.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case err := <-n.done:
			n.done <- err
			return false, fmt.Errorf("it ended: %w", err)
		default:
		}
		_, err := n.Ctl("list")
		return err == nil, nil
	})
	if err != nil {
		n.t.Fatalf("wait for simulated node: %v\n%s", err, n.log.String())
	}
}

// Kill ends the daemon as a crash would. It is started again by itself; Await
// waits for that.
func (n *Node) Kill() {
	n.t.Helper()
	raw, err := os.ReadFile(filepath.Join(n.state, "daemon.pid"))
	if err != nil {
		n.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(raw), &pid); err != nil {
		n.t.Fatalf("read process id %q: %v", raw, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		n.t.Fatalf("kill daemon: %v", err)
	}
}
