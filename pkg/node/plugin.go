// Package node is the kubelet plugin: it publishes a node's GPUs and MIG slices
// and makes what the scheduler allocated. Its corridors start here and end here:
// publish.go from hardware to slices, prepare.go from a claim to its devices.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/metrics"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// Config is what a plugin is told.
type Config struct {
	DriverName string
	NodeName   string
	// PluginDir has the plugin's socket and what the library keeps; RegistrarDir
	// is where the kubelet looks for new plugins; CDIDir is one of the container
	// runtime's CDI directories.
	PluginDir    string
	RegistrarDir string
	CDIDir       string
	// NICs publishes RDMA NICs; Pairs also publishes GPUs together with the NICs near
	// them; NICSharing is how claims share a NIC; Rails are those that somebody set.
	NICs       bool
	Pairs      bool
	NICSharing pool.NICSharing
	Rails      map[hardware.PCIAddress]int
	// NICFilter is a CEL expression that decides alone which NICs are published; without
	// it these are all but those that carry the host's default route. FilterProgram is
	// the path of cleave-filter, which it needs.
	NICFilter     string
	FilterProgram string
	// KeepMIGMode leaves MIG mode as it is on every GPU, also where it could be
	// changed without a reset.
	KeepMIGMode bool
	// ServeExisting hands out MIG instances that were there before, as they are.
	// Without it they keep what overlaps them from being handed out.
	ServeExisting bool
	// Rescan is how often hardware is looked at without any event; a minute if 0.
	Rescan time.Duration
	// Glance is how often NICs are looked at in between, for changes of which the kernel
	// says nothing; 10 seconds if 0.
	Glance time.Duration
	// Settled is called after each look at the hardware; may be nil.
	Settled func()
	// HeldPatience is how long a claim waits for a device that another claim holds.
	HeldPatience time.Duration
	// AllowCoexistence publishes although another driver or device plugin offers
	// this node's GPUs, too.
	AllowCoexistence bool
}

// Deps are what a plugin works with.
type Deps struct {
	Kube    kubernetes.Interface
	Host    *host.Host
	Journal *journal.Journal
	CDI     *cdi.Writer
	Metrics *metrics.Node
}

// Plugin is the kubelet plugin of one node.
type Plugin struct {
	cfg    Config
	deps   Deps
	helper *kubeletplugin.Helper
	model  model
	ready  readiness
	live   liveSlices
	status *reporter
	once   once
	wake   chan struct{}
	// seen are the NICs as they were read last.
	seen fingerprint
	// filter chooses among them.
	filter nicFilter
	// released is closed, and made anew, whenever a claim lets its devices go.
	released broadcast
	// dropped are the features whose fields the API server turns out to drop.
	dropped dropped
	// fail ends Run.
	fail context.CancelCauseFunc
}

// New returns a plugin. It starts nothing.
func New(cfg Config, deps Deps) *Plugin {
	cfg.Rescan = cmp.Or(cfg.Rescan, time.Minute)
	cfg.Glance = cmp.Or(cfg.Glance, 10*time.Second)
	p := &Plugin{cfg: cfg, deps: deps, wake: make(chan struct{}, 1)}
	p.filter = nicFilter{expression: cfg.NICFilter, driver: cfg.DriverName, program: cfg.FilterProgram}
	p.live.init(cfg.DriverName, deps.Kube)
	p.status = newReporter(cfg.DriverName, cfg.NodeName, deps.Kube)
	return p
}

// Run serves the kubelet and publishes until ctx is done, and returns an error
// if it cannot go on.
func (p *Plugin) Run(ctx context.Context) error {
	ctx, p.fail = context.WithCancelCause(ctx)
	defer p.fail(nil)
	if err := p.filter.check(ctx); err != nil {
		return err
	}
	begun := p.inventory(ctx)
	watch, err := p.live.watch(p.cfg.NodeName, p.ready.compare, p.poke)
	if err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, p, p.options()...)
	if err != nil {
		return fmt.Errorf("start kubelet plugin in %s: %w", p.cfg.PluginDir, err)
	}
	p.helper = helper
	var wg sync.WaitGroup
	wg.Go(func() { watch(ctx) })
	wg.Go(func() { p.publishing(ctx) })
	wg.Go(func() { p.listening(ctx) })
	if p.cfg.NICs {
		wg.Go(func() { p.glancing(ctx) })
	}
	wg.Go(func() { p.recovering(ctx, begun) })
	wg.Go(func() { p.status.run(ctx) })
	<-ctx.Done()
	wg.Wait()
	helper.Stop()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (p *Plugin) options() []kubeletplugin.Option {
	return []kubeletplugin.Option{
		kubeletplugin.DriverName(p.cfg.DriverName),
		kubeletplugin.KubeClient(p.deps.Kube),
		kubeletplugin.NodeName(p.cfg.NodeName),
		kubeletplugin.PluginDataDirectoryPath(p.cfg.PluginDir),
		kubeletplugin.RegistrarDirectoryPath(p.cfg.RegistrarDir),
		kubeletplugin.Serialize(false), // claims on different GPUs go side by side
		kubeletplugin.HealthService(false),
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion}),
		kubeletplugin.CDIDirectory(p.cfg.CDIDir),
		kubeletplugin.GRPCInterceptor(p.registration),
	}
}

// Socket is the one that the kubelet calls.
func (c Config) Socket() string { return filepath.Join(c.PluginDir, "dra.sock") }

// Ready is nil when the plugin does its work.
func (p *Plugin) Ready(context.Context) error {
	return errors.Join(p.model.check(), p.ready.check())
}

// PrepareResourceClaims prepares claims side by side.
func (p *Plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make([]kubeletplugin.PrepareResult, len(claims))
	var wg sync.WaitGroup
	for i, claim := range claims {
		wg.Go(func() {
			ctx, done := p.begin(ctx, metrics.Prepare, klog.KObj(claim), claim.UID)
			devices, err := p.prepare(ctx, claim)
			done(err)
			results[i] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
		})
	}
	wg.Wait()
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for i, claim := range claims {
		out[claim.UID] = results[i]
	}
	return out, nil
}

// UnprepareResourceClaims takes claims back side by side.
func (p *Plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	errs := make([]error, len(claims))
	var wg sync.WaitGroup
	for i, claim := range claims {
		wg.Go(func() {
			ctx, done := p.begin(ctx, metrics.Unprepare, klog.KRef(claim.Namespace, claim.Name), claim.UID)
			errs[i] = p.unprepare(ctx, string(claim.UID))
			done(errs[i])
		})
	}
	wg.Wait()
	out := map[types.UID]error{}
	for i, claim := range claims {
		out[claim.UID] = errs[i]
	}
	return out, nil
}

// begin starts the log and the measurements of one claim; done ends them.
func (p *Plugin) begin(ctx context.Context, op metrics.Operation, ref klog.ObjectRef, uid types.UID) (context.Context, func(error)) {
	logger := klog.FromContext(ctx).WithValues("claim", ref, "uid", uid)
	measured := p.deps.Metrics.Start(op)
	return klog.NewContext(ctx, logger), func(err error) {
		measured(err)
		if err != nil {
			logger.Error(err, string(op))
			return
		}
		logger.V(2).Info(string(op))
	}
}

// HandleError is called by the library for what goes wrong in the background.
func (p *Plugin) HandleError(ctx context.Context, err error, msg string) {
	logger := klog.FromContext(ctx)
	logger.Error(err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.fail(fmt.Errorf("%s: %w", msg, err))
		return
	}
	p.deps.Metrics.PublishError()
	p.ready.reject(err)
	var fields *resourceslice.DroppedFieldsError
	if errors.As(err, &fields) && p.dropped.add(fields.DisabledFeatures()...) {
		logger.Info("The API server drops fields: what depends on them is not published", "disabledFeatures", fields.DisabledFeatures())
		p.poke()
	}
}

// WatchHealthStatus is not offered yet.
func (p *Plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
