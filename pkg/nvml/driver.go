// Package nvml drives NVIDIA GPUs through NVML, NVIDIA's management library, and
// speaks in the values of package hardware.
//
// It trusts nothing between two calls: the handle of a GPU, its UUID, its minor
// and its MIG instances are read anew every time. The library may come and go
// while the process runs: a call that finds no driver wraps
// hardware.ErrDriverUnavailable, and a later one works once it is there.
package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Config says where the driver is. The zero value is a driver that is installed
// on the machine this process sees.
type Config struct {
	// LibraryPath is the path of libnvidia-ml.so.1. If empty the usual library
	// directories under DriverRoot are searched, at every attempt until it is
	// found; if that is "/", then those of the loader, too.
	LibraryPath string
	// DriverRoot is the directory under which the driver is installed; "/" if empty.
	DriverRoot string
	// DevRoot is the directory that holds dev; "/" if empty.
	DevRoot string
	// ProcRoot is where procfs is; "/proc" if empty.
	ProcRoot string
	// DestroyTimeout is how long a destroyed instance may stay visible before
	// that counts as a failure; 10 seconds if 0.
	DestroyTimeout time.Duration
}

// Driver is one node's NVIDIA driver. It may be used concurrently.
type Driver struct {
	cfg Config
	// session guards current: operations hold it for reading, so that the
	// library is never shut down under a call.
	session sync.RWMutex
	current *session
	loaded  *library
}

// New prepares a Driver and touches nothing.
func New(cfg Config) *Driver {
	if cfg.DriverRoot == "" {
		cfg.DriverRoot = "/"
	}
	if cfg.DevRoot == "" {
		cfg.DevRoot = "/"
	}
	if cfg.ProcRoot == "" {
		cfg.ProcRoot = "/proc"
	}
	if cfg.DestroyTimeout == 0 {
		cfg.DestroyTimeout = 10 * time.Second
	}
	return &Driver{cfg: cfg}
}

// Close ends the session with the library. A later call starts a new one.
func (d *Driver) Close() {
	d.session.Lock()
	defer d.session.Unlock()
	d.shutdown()
}

// DriverVersion is the driver's version as it names itself.
func (d *Driver) DriverVersion(ctx context.Context) (string, error) {
	var version string
	err := d.do(ctx, func(s *session) error {
		v, ret := s.lib.SystemGetDriverVersion()
		version = v
		return failure("nvmlSystemGetDriverVersion", "this node", ret)
	})
	return version, err
}

// do runs op in a session, starting one if there is none. If the driver turns
// out to be gone the session is ended, so that the next call starts afresh.
func (d *Driver) do(ctx context.Context, op func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := d.begin()
	if err != nil {
		return err
	}
	err = op(s)
	d.session.RUnlock()
	if errors.Is(err, hardware.ErrDriverUnavailable) {
		d.end(s)
	}
	return err
}

// begin returns with session held for reading unless it fails.
func (d *Driver) begin() (*session, error) {
	for {
		d.session.RLock()
		if d.current != nil {
			return d.current, nil
		}
		d.session.RUnlock()
		if err := d.start(); err != nil {
			return nil, err
		}
	}
}

// start loads the library if that has not been done and initialises it.
func (d *Driver) start() error {
	d.session.Lock()
	defer d.session.Unlock()
	if d.current != nil {
		return nil
	}
	if d.loaded == nil {
		l, err := load(d.cfg)
		if err != nil {
			return fmt.Errorf("load NVML: %w", err)
		}
		d.loaded = l
	}
	// Without the flag a node whose GPUs are all lost looks like one without a driver.
	ret := d.loaded.InitWithFlags(nvml.INIT_FLAG_NO_GPUS)
	if err := failure("nvmlInitWithFlags", d.loaded.path, ret); err != nil {
		return err
	}
	d.current = newSession(d.loaded)
	return nil
}

// end shuts s down unless somebody else has done so already.
func (d *Driver) end(s *session) {
	d.session.Lock()
	defer d.session.Unlock()
	if d.current == s {
		d.shutdown()
	}
}

// shutdown needs the lock. Its result does not matter: the driver may be gone.
func (d *Driver) shutdown() {
	if d.current != nil {
		_ = d.loaded.Shutdown()
		d.current = nil
	}
}
