package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2/ktesting"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/metrics"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/node"
	"github.com/cleave-dra/cleave/pkg/nvml"
	"github.com/cleave-dra/cleave/pkg/sysfs"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

const (
	driverName = "cleave.dev"
	nodeName   = "node-1"
	pool       = nodeName + "/gpu"
	patience   = 30 * time.Second
)

// fixture is a plugin at work: its real socket, the real NVML library in front of
// simulated GPUs in another process, and a fake API server.
type fixture struct {
	t    *testing.T
	hw   *simnode.Node
	kube *fake.Clientset
	dir  string
	// configure changes the plugin's configuration before it starts.
	configure func(*node.Config)
	// flags are more of the simulator.
	flags []string
	// dropCounters makes the API server drop shared counters.
	dropCounters bool
	// takeLists is what the API server says to a slice with an attribute of several
	// values. Unless a test sets it, it refuses it, as with the feature off.
	takeLists func(*resourceapi.ResourceSlice) error
	// kubelet calls the plugin; stop ends the plugin, whose state stays.
	kubelet drapb.DRAPluginClient
	plugin  *node.Plugin
	stop    func()
}

func newFixture(t *testing.T, server string, options ...func(*fixture)) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "cleave") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fixture{t: t, takeLists: refuseList, kube: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node-uid"}}), dir: dir}
	for _, option := range options {
		option(f)
	}
	f.hw = simnode.Start(t, server, simnode.WithFlags(f.flags...))
	f.nameGenerated()
	for _, d := range []string{f.path("plugin"), f.path("registry"), f.path("cdi")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	return f
}

// with changes the plugin's configuration.
func with(configure func(*node.Config)) func(*fixture) {
	return func(f *fixture) { f.configure = configure }
}

// nameGenerated does what the fake API server lacks: a name for generateName.
func (f *fixture) nameGenerated() {
	var n atomic.Int32
	f.kube.PrependReactor("create", "resourceslices", func(action k8stesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(k8stesting.CreateAction)
		if !ok {
			return false, nil, fmt.Errorf("create without an object: %v", action)
		}
		slice, ok := create.GetObject().(*resourceapi.ResourceSlice)
		if !ok {
			return false, nil, fmt.Errorf("create of %T", create.GetObject())
		}
		if slice.GenerateName != "" {
			slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, n.Add(1))
		}
		if f.dropCounters {
			slice.Spec.SharedCounters = nil
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].ConsumesCounters = nil
			}
		}
		if err := f.validate(slice); err != nil {
			return true, nil, err
		}
		// Nor does it know dry runs.
		dry, ok := action.(interface{ GetCreateOptions() metav1.CreateOptions })
		return ok && len(dry.GetCreateOptions().DryRun) > 0, slice, nil
	})
}

func (f *fixture) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

// deps are the real parts below the plugin.
func (f *fixture) deps() (node.Deps, func()) {
	f.t.Helper()
	driver := nvml.New(nvml.Config{LibraryPath: f.hw.Library, DriverRoot: f.hw.Root, DevRoot: f.hw.DevRoot, ProcRoot: f.hw.ProcRoot})
	records, err := journal.Open(f.path("plugin"))
	if err != nil {
		f.t.Fatal(err)
	}
	return node.Deps{
		Kube:    f.kube,
		Host:    host.New(driver, sysfs.New(f.hw.SysRoot), f.path("plugin", "locks")),
		Journal: records,
		CDI: cdi.New(cdi.Config{
			Dir: f.path("cdi"), DriverRoot: f.hw.Root, HostDriverRoot: f.hw.Root, DevRoot: f.hw.DevRoot,
			HookPath: "/hooks/nvidia-cdi-hook", FilesDir: f.path("plugin", "files"), DriverVersion: driver.DriverVersion,
		}),
		Metrics: metrics.NewNode(driverName, "test"),
	}, driver.Close
}

// start runs a plugin on the fixture's directories, as a new process would, and
// waits until it is ready.
func (f *fixture) start() {
	f.t.Helper()
	f.startUnready()
	f.await("the plugin is ready", f.plugin.Ready)
}

// startUnready is start for a plugin that does not become ready.
func (f *fixture) startUnready() {
	f.t.Helper()
	deps, closeDriver := f.deps()
	cfg := node.Config{
		DriverName: driverName, NodeName: nodeName, PluginDir: f.path("plugin"), RegistrarDir: f.path("registry"), CDIDir: f.path("cdi"),
		HeldPatience: 300 * time.Millisecond, Rescan: 500 * time.Millisecond,
	}
	if f.configure != nil {
		f.configure(&cfg)
	}
	f.plugin = node.New(cfg, deps)
	_, ctx := ktesting.NewTestContext(f.t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.plugin.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("plugin ended with %v", err)
		}
		closeDriver()
	}
	f.t.Cleanup(f.stop)
	f.await("the plugin's socket answers", func(ctx context.Context) error { return f.plugin.Healthy(ctx) })
	f.kubelet = drapb.NewDRAPluginClient(f.dial(cfg.Socket()))
	f.register()
}

// register does the kubelet's part of the registration.
func (f *fixture) register() {
	f.t.Helper()
	client := registerapi.NewRegistrationClient(f.dial(f.path("registry", driverName+"-reg.sock")))
	// This socket comes after the one that answers the kubelet's calls.
	f.await("the plugin can be registered", func(ctx context.Context) error {
		_, err := client.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
		return err
	})
	if _, err := client.NotifyRegistrationStatus(f.t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) dial(socket string) *grpc.ClientConn {
	f.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// await waits until check is content.
func (f *fixture) await(what string, check func(context.Context) error) {
	f.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(f.t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		f.t.Fatalf("wait until %s: %v", what, last)
	}
}

// claim makes an allocated claim: request r0 got the first device, and so on.
func (f *fixture) claim(name string, devices ...string) *resourceapi.ResourceClaim {
	f.t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprintf("r%d", i), Driver: driverName, Pool: pool, Device: d})
	}
	return f.create(c)
}

// configured is a claim whose devices are configured with opaque parameters.
func (f *fixture) configured(name, parameters string, devices ...string) *resourceapi.ResourceClaim {
	f.t.Helper()
	c := f.claim(name, devices...)
	c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: driverName, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
		}},
	}}
	return f.create(c)
}

// create stores the claim, replacing an older one of the same name.
func (f *fixture) create(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	f.t.Helper()
	claims := f.kube.ResourceV1().ResourceClaims(c.Namespace)
	_ = claims.Delete(f.t.Context(), c.Name, metav1.DeleteOptions{}) // usually not there
	if _, err := claims.Create(f.t.Context(), c, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func reference(c *resourceapi.ResourceClaim) []*drapb.Claim {
	return []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}
}

// prepare asks for one claim; the error is the claim's.
func (f *fixture) prepare(c *resourceapi.ResourceClaim) ([]*drapb.Device, error) {
	return f.prepareWith(f.t.Context(), c)
}

func (f *fixture) prepareWith(ctx context.Context, c *resourceapi.ResourceClaim) ([]*drapb.Device, error) {
	resp, err := f.kubelet.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: reference(c)})
	if err != nil {
		return nil, err
	}
	r, ok := resp.Claims[string(c.UID)]
	if !ok {
		return nil, fmt.Errorf("no answer for claim %s", c.Name)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("%s", r.Error)
	}
	return r.Devices, nil
}

func (f *fixture) mustPrepare(c *resourceapi.ResourceClaim) []*drapb.Device {
	f.t.Helper()
	devices, err := f.prepare(c)
	if err != nil {
		f.t.Fatalf("prepare %s: %v", c.Name, err)
	}
	return devices
}

// mustRefuse expects a claim to be refused with a message that has all parts.
func (f *fixture) mustRefuse(c *resourceapi.ResourceClaim, parts ...string) {
	f.t.Helper()
	_, err := f.prepare(c)
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			f.t.Errorf("prepare %s: got %v, want an error with %q", c.Name, err, part)
		}
	}
}

func (f *fixture) unprepare(c *resourceapi.ResourceClaim) error {
	resp, err := f.kubelet.NodeUnprepareResources(f.t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: reference(c)})
	if err != nil {
		return err
	}
	r, ok := resp.Claims[string(c.UID)]
	if !ok {
		return fmt.Errorf("no answer for claim %s", c.Name)
	}
	if r.Error != "" {
		return fmt.Errorf("%s", r.Error)
	}
	return nil
}

func (f *fixture) mustUnprepare(c *resourceapi.ResourceClaim) {
	f.t.Helper()
	if err := f.unprepare(c); err != nil {
		f.t.Fatalf("unprepare %s: %v", c.Name, err)
	}
}

// instances lists what exists as "<gpu index>:<profile>@<start>".
func (f *fixture) instances() []string {
	f.t.Helper()
	var out []string
	for _, g := range f.hw.State().GPUs {
		for _, i := range g.Instances {
			out = append(out, fmt.Sprintf("%d:%s@%d", g.Index, i.Profile, i.Placement.Start))
		}
	}
	return out
}

// left lists what a claim must not leave behind: instances and files.
func (f *fixture) left() []string {
	f.t.Helper()
	out := f.instances()
	for _, pattern := range []string{"cdi/*", "plugin/claims/*", "plugin/held/*/*", "plugin/metadata/*/*"} {
		found, err := filepath.Glob(f.path(pattern))
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func (f *fixture) mustBeClean() {
	f.t.Helper()
	if left := f.left(); len(left) > 0 {
		f.t.Errorf("left behind: %v", left)
	}
}

// whole and slice are names of the node's devices.
func (f *fixture) whole(gpu int) string { return f.hw.Server.Node().GPUs[gpu].DeviceName() }

func (f *fixture) slice(gpu int, profile string, start int) string {
	f.t.Helper()
	g := f.hw.Server.Node().GPUs[gpu]
	for _, p := range g.MIG.Profiles {
		i := slices.IndexFunc(p.Placements, func(pl mig.Placement) bool { return pl.Start == start })
		if p.Name == profile && i >= 0 {
			return g.PartitionName(p, p.Placements[i])
		}
	}
	f.t.Fatalf("GPU %d has no %s at %d", gpu, profile, start)
	return ""
}
