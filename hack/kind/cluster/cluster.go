package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kind "sigs.k8s.io/kind/pkg/cluster"

	"github.com/cleave-dra/cleave/hack/kind/progress"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

// Cluster drives kind's library.
type Cluster struct {
	store store.Store
	log   *progress.Log
	kind  *kind.Provider
}

// New starts nothing.
func New(s store.Store, log *progress.Log) *Cluster {
	return &Cluster{
		store: s, log: log,
		kind: kind.NewProvider(kind.ProviderWithDocker(), kind.ProviderWithLogger(progress.Kind(log))),
	}
}

// Up returns with a cluster that is as asked for and healthy.
func (c *Cluster) Up(ctx context.Context, o Options, image Image) error {
	want, err := settings(o, image)
	if err != nil {
		return err
	}
	known, err := readRecord(c.store, o.Name)
	if err != nil {
		return err
	}
	containers, err := containersOf(ctx, o.Name)
	if err != nil {
		return err
	}
	if len(containers) > 0 {
		if known == nil {
			return fmt.Errorf("there is a kind cluster %q that this program did not make; "+
				"choose another --name, or remove it with `kind delete cluster --name %s`", o.Name, o.Name)
		}
		reason := c.unfit(ctx, o, known, want, containers)
		if reason == nil {
			c.log.Printf("cluster %s is there and healthy", o.Name)
			return c.reuse(ctx, o, image, known)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.log.Printf("cluster %s is made anew: %v", o.Name, reason)
		if err := c.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return c.create(ctx, o, image, want)
}

// reuse brings up to date what may have changed since the cluster was made.
func (c *Cluster) reuse(ctx context.Context, o Options, image Image, known *record) error {
	if image.Own {
		if err := c.connect(ctx, o); err != nil {
			return err
		}
	}
	if !slices.Contains(known.kubeconfigs(), o.Kubeconfig) {
		known.Others = append(known.Others, o.Kubeconfig)
		if err := writeRecord(c.store, o.Name, known); err != nil {
			return err
		}
	}
	return c.kind.ExportKubeConfig(o.Name, o.Kubeconfig, false)
}

// unfit says why a cluster cannot be used as it is, or nil.
func (c *Cluster) unfit(ctx context.Context, o Options, known *record, want string, containers []container) error {
	if !known.Ready {
		return errors.New("an earlier run did not finish it")
	}
	if known.Settings != want {
		return errors.New("the settings or the node image changed")
	}
	if len(containers) != o.Workers+1 {
		return fmt.Errorf("it has %d of %d nodes", len(containers), o.Workers+1)
	}
	for _, node := range containers {
		if node.state != "running" {
			return fmt.Errorf("node %s is %s", node.name, node.state)
		}
	}
	const patience = 60 * time.Second // after a restart of Docker it needs a while
	if err := c.awaitReady(ctx, o, patience); err != nil {
		return fmt.Errorf("it is not healthy: %w", err)
	}
	return nil
}

// create makes the cluster, and leaves nothing behind if that fails.
func (c *Cluster) create(ctx context.Context, o Options, image Image, want string) error {
	fresh := &record{Settings: want, Kubeconfig: o.Kubeconfig}
	if err := os.MkdirAll(filepath.Dir(o.Kubeconfig), 0o755); err != nil {
		return fmt.Errorf("make folder for the kubeconfig: %w", err)
	}
	if err := writeRecord(c.store, o.Name, fresh); err != nil {
		return err
	}
	if err := c.claimNetwork(ctx); err != nil {
		return err
	}
	if err := c.fill(ctx, o, image); err != nil {
		err = fmt.Errorf("make cluster %s: %w", o.Name, err)
		if ctx.Err() == nil {
			logs := c.store.Path("logs", "cluster-"+o.Name)
			c.keepLogs(o.Name, logs)
			err = fmt.Errorf("%w\nWhat its nodes said is in %s", err, logs)
		}
		return errors.Join(err, c.Delete(context.WithoutCancel(ctx), o.Name))
	}
	fresh.Ready = true
	return writeRecord(c.store, o.Name, fresh)
}

func (c *Cluster) fill(ctx context.Context, o Options, image Image) error {
	stop := c.log.Watch("making cluster "+o.Name, nil)
	err := c.createNodes(ctx, o, image)
	stop()
	if err != nil {
		return err
	}
	if image.Own {
		if err := c.connect(ctx, o); err != nil {
			return err
		}
	}
	return c.awaitReady(ctx, o, 3*time.Minute)
}

// createNodes calls kind, which knows no context: when ours ends, the
// containers are taken away, and kind gives up.
func (c *Cluster) createNodes(ctx context.Context, o Options, image Image) error {
	done := make(chan error, 1)
	go func() {
		done <- c.kind.Create(o.Name,
			kind.CreateWithV1Alpha4Config(kindConfig(o, image)),
			kind.CreateWithKubeconfigPath(o.Kubeconfig),
			kind.CreateWithRetain(true)) // we delete it ourselves, after saving its logs
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	c.log.Printf("interrupted: taking the unfinished cluster away")
	for {
		if err := removeContainers(context.WithoutCancel(ctx), o.Name); err != nil {
			c.log.Printf("%v", err)
		}
		select {
		case <-done:
			return context.Cause(ctx)
		case <-time.After(time.Second): // kind may have made one more meanwhile
		}
	}
}

func (c *Cluster) keepLogs(name, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		c.log.Printf("old logs stay: %v", err)
	}
	if err := c.kind.CollectLogs(name, dir); err != nil {
		c.log.Printf("not all logs of the nodes could be saved: %v", err)
	}
}

// Delete removes a cluster that we made, and all that belongs to it.
func (c *Cluster) Delete(ctx context.Context, name string) error {
	known, err := readRecord(c.store, name)
	if err != nil || known == nil {
		return err
	}
	for _, path := range known.kubeconfigs() { // without nodes kind still cleans the kubeconfig
		if err := c.kind.Delete(name, path); err != nil {
			return fmt.Errorf("delete cluster %s: %w", name, err)
		}
		if err := errors.Join(removeIfEmpty(path), removeIfEmpty(path+".lock")); err != nil {
			return err
		}
	}
	if err := removeContainers(ctx, name); err != nil {
		return err
	}
	if err := c.removeNetwork(ctx); err != nil {
		return err
	}
	if err := os.Remove(recordPath(c.store, name)); err != nil {
		return fmt.Errorf("forget cluster %s: %w", name, err)
	}
	return nil
}

// removeIfEmpty removes a kubeconfig in which kind has left no cluster. One
// that the user named may hold other clusters too, and stays.
func removeIfEmpty(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if strings.Contains(string(text), "server:") {
		return nil
	}
	return os.Remove(path)
}
