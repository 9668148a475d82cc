// Package engine makes sure that Docker works, and later stops what it started.
package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/capability"
	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/progress"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

// Engine is the Docker of this machine.
type Engine struct {
	Store store.Store
	Run   *command.Runner
	Log   *progress.Log
	// Bounded builds the runtime wrapper, where the host needs it.
	Bounded func(ctx context.Context) (string, error)
}

// Ensure returns once Docker answers: it installs and starts it if need be.
func (e *Engine) Ensure(ctx context.Context) error {
	if version, err := e.version(ctx); err == nil {
		e.Log.Printf("Docker %s is running", version)
		return e.warnShort(ctx)
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	} else if os.Geteuid() != 0 {
		return fmt.Errorf("no answer from Docker, and only root can start it.\n"+
			"Start Docker and make sure that `docker info` works for you, or run this as root.\nIt said: %w", err)
	}
	if err := e.install(ctx); err != nil {
		return err
	}
	return e.start(ctx)
}

// version asks the daemon for its version, and so whether it is there.
func (e *Engine) version(ctx context.Context) (string, error) {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	return command.Output(ctx, "docker", "version", "--format", "{{.Server.Version}}")
}

// Running reports whether the daemon answers.
func (e *Engine) Running(ctx context.Context) bool {
	_, err := e.version(ctx)
	return err == nil
}

// warnShort says so if this Docker, which somebody else started, may be unable
// to start privileged containers.
func (e *Engine) warnShort(ctx context.Context) error {
	withheld, err := capability.Withheld()
	if err != nil || len(withheld) == 0 {
		return nil
	}
	runtime, err := command.Output(ctx, "docker", "info", "--format", "{{.DefaultRuntime}}")
	if err != nil {
		return fmt.Errorf("ask Docker for its runtime: %w", err)
	}
	if runtime != wrapperName {
		e.Log.Printf("note: this host withholds %s. If Docker cannot start privileged containers, stop it and "+
			"run this again: it then starts Docker in a way that can.", strings.Join(withheld, ", "))
	}
	return nil
}

// install gets the Docker daemon and its client from Debian or Ubuntu.
func (e *Engine) install(ctx context.Context) error {
	var missing []string
	if !onPath("dockerd") || !onPath("runc") {
		missing = append(missing, "docker.io")
	}
	if !onPath("iptables") {
		missing = append(missing, "iptables")
	}
	if err := e.Packages(ctx, missing...); err != nil {
		return err
	}
	if onPath("docker") {
		return nil
	}
	return e.Packages(ctx, "docker-cli") // its own package since Debian 13
}

// Packages installs Debian packages.
func (e *Engine) Packages(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names, ", ")
	if !onPath("apt-get") || os.Geteuid() != 0 {
		return fmt.Errorf("%s must be installed, and this program can do that only as root on Debian or Ubuntu; "+
			"please install it and try again", list)
	}
	install := command.Spec{
		Label: "installing " + list,
		Args:  append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, names...),
		Env:   []string{"DEBIAN_FRONTEND=noninteractive"},
	}
	if err := e.Run.Run(ctx, install); err == nil || ctx.Err() != nil {
		return err
	}
	// The package lists may be missing or old. Other people's broken sources
	// make an update fail that was good enough for us.
	update := command.Spec{Label: "updating package lists", Args: []string{"apt-get", "update"}}
	if err := e.Run.Run(ctx, update); err != nil {
		e.Log.Printf("the update had errors; going on")
	}
	return e.Run.Run(ctx, install)
}

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
