package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/daemon"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/metrics"
	"github.com/cleave-dra/cleave/pkg/node"
	"github.com/cleave-dra/cleave/pkg/nvml"
	pool "github.com/cleave-dra/cleave/pkg/slices"
	"github.com/cleave-dra/cleave/pkg/sysfs"
)

// heldPatience is long enough for containers that end when they are told, and leaves
// the kubelet, which gives up after 45 s, its answer.
const heldPatience = 20 * time.Second

// gcPercent trades a little time for memory: the plugin idles on every GPU node.
const gcPercent = 25

// filterProgram is the name of the program that --nic-filter needs.
const filterProgram = "cleave-filter"

// serve runs the plugin until it is told to stop.
func (o *options) serve(stderr io.Writer) error {
	ctx, stop, err := o.daemon.Context(stderr)
	if err != nil {
		return err
	}
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.FromContext(ctx).Info("Starting cleave-node", "version", version, "node", o.nodeName, "driver", o.driverName, "podUID", o.podUID)

	driver := nvml.New(nvml.Config{LibraryPath: o.libraryPath, DriverRoot: o.driverRoot, DevRoot: o.devRoot, ProcRoot: o.procRoot})
	defer driver.Close()
	measured := metrics.NewNode(o.driverName, version)
	plugin, err := o.plugin(driver, measured)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return plugin.Run(ctx) })
	group.Go(func() error {
		return daemon.Serve(ctx, o.daemon.HTTPAddress, daemon.Endpoints{
			Healthy: plugin.Healthy, Ready: plugin.Ready, Metrics: measured.Gatherer(),
		})
	})
	return group.Wait()
}

// plugin puts the plugin together.
func (o *options) plugin(driver *nvml.Driver, measured *metrics.Node) (*node.Plugin, error) {
	kube, err := o.daemon.KubeClient()
	if err != nil {
		return nil, err
	}
	records, err := journal.Open(o.pluginDir)
	if err != nil {
		return nil, fmt.Errorf("--plugin-dir: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find %s beside this program: %w", filterProgram, err)
	}
	cfg := node.Config{
		DriverName: o.driverName, NodeName: o.nodeName, PluginDir: o.pluginDir, RegistrarDir: o.registrarDir, CDIDir: o.cdiDir,
		NICs: o.nics, Pairs: o.pairs, NICSharing: pool.NICSharing(o.nicSharing), Rails: o.addresses(),
		NICFilter: o.nicFilter, FilterProgram: filepath.Join(filepath.Dir(executable), filterProgram),
		// A look at the hardware, and a burst of work before it, leave garbage: an idle
		// plugin allocates so little that the collector would hardly ever run.
		Settled:      debug.FreeOSMemory,
		HeldPatience: heldPatience,
		KeepMIGMode:  o.migModeToggle == toggleNever, ServeExisting: o.migExisting == existingServe, AllowCoexistence: o.allowCoexistence,
	}
	return node.New(cfg, node.Deps{
		Kube:    kube,
		Host:    host.New(driver, sysfs.New(o.sysRoot).WithProc(o.procRoot), filepath.Join(o.pluginDir, "locks")),
		Journal: records,
		CDI: cdi.New(cdi.Config{
			Dir: o.cdiDir, DriverRoot: o.driverRoot, HostDriverRoot: o.hostDriverRoot, DevRoot: o.devRoot,
			HookPath: o.hookPath, FilesDir: filepath.Join(o.pluginDir, "files"), DriverVersion: driver.DriverVersion,
		}),
		Metrics: measured,
	}), nil
}
