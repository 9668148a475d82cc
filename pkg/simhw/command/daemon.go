package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// listenerFD is where the parent hands on the socket: the first extra file.
const listenerFD = 3

// daemonCommand owns the hardware: state, file tree and answers.
func daemonCommand(ctx context.Context, executable string, args []string, stderr io.Writer) error {
	o, err := parseOptions("daemon", executable, args, stderr)
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(listenerFD, "socket"))
	if err != nil {
		return fmt.Errorf("take over the socket (the command to start is serve): %w: %w", err, errRefused)
	}
	defer l.Close()
	// A daemon that is being replaced may still be writing its last state.
	unlock, err := lockState(o.state, "daemon.lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := o.start(ctx, executable)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errRefused)
	}
	control, err := listenControl(o.root)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errRefused)
	}
	if err := os.WriteFile(filepath.Join(o.state, "daemon.pid"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		return fmt.Errorf("write process id: %w: %w", err, errRefused)
	}
	klog.FromContext(ctx).Info("Serving", "hardware", m.engine.String(), "root", o.root)
	return m.serveAll(ctx, l, control)
}

// machine is the simulated node.
type machine struct {
	engine *simhw.Engine
	files  *tree.Tree
	nvml   *serve.Server
}

// start takes up the state and brings the file tree into line with it.
func (o options) start(ctx context.Context, executable string) (*machine, error) {
	logger := klog.FromContext(ctx)
	server, warnings, err := catalog.LoadServer(o.server)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		logger.V(2).Info("Simulating a value that no source states", "value", w.String())
	}
	majors, err := o.host.Majors(filepath.Join(o.state, "majors.json"))
	if err != nil {
		return nil, err
	}
	seed, err := o.keptSeed()
	if err != nil {
		return nil, err
	}
	m := &machine{}
	m.files = tree.New(tree.Config{
		Root: o.root, Libraries: o.libDir, Executable: executable, Server: server, Majors: majors,
		ViewsChanged: func() {
			if m.nvml != nil { // there are no clients before
				m.nvml.Refresh()
			}
		},
	})
	m.engine, err = simhw.NewEngine(server, simhw.Options{
		Seed: seed, StateFile: filepath.Join(o.state, "hardware.json"), Latency: o.latency(),
		Virtualization: simhw.Virtualization(o.virtualization), Minors: o.minors, MinorsMove: o.minorsMove,
		Observe: func(s simhw.Snapshot) {
			if err := m.files.Sync(s); err != nil {
				logger.Error(err, "The file tree lags behind the hardware")
			}
		},
	})
	if err != nil {
		return nil, err
	}
	m.nvml = serve.New(m.engine, majors)
	// Once more, since here it must succeed.
	return m, m.files.Sync(m.engine.Snapshot())
}

// keptSeed is the flag's, or one that was rolled for this state directory, so
// that two nodes never have the same GPUs.
func (o options) keptSeed() (string, error) {
	if o.seed != "" {
		return o.seed, nil
	}
	path := filepath.Join(o.state, "seed")
	raw, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(raw)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read seed: %w", err)
	}
	seed := rand.Text()
	if err := os.WriteFile(path, []byte(seed+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("write seed: %w", err)
	}
	return seed, nil
}

// serveAll answers until ctx ends.
func (m *machine) serveAll(ctx context.Context, clients, control net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: newControl(m.engine, m.files)}
	failed := make(chan error, 2)
	go func() { failed <- m.nvml.Serve(ctx, clients) }()
	go func() {
		if err := server.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve control requests: %w", err)
			return
		}
		failed <- nil
	}()
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := <-failed
	cancel()
	return errors.Join(err, <-failed)
}
