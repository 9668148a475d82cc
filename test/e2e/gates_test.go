//go:build e2e && gates

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests want a cluster of their own, with one node, whose API server lacks
// features: see `make e2e-gates`. Kubernetes 1.37 has them on and lets them be switched
// off; DRADeviceTaints is locked from 1.38 on.

// Feature gates of Kubernetes.
const (
	partitionableDevices = "DRAPartitionableDevices"
	deviceTaints         = "DRADeviceTaints"
)

// The slots of the mixed server's GPUs, as ctl knows them.
const (
	h100Slot = "--gpu=0"
	l40sSlot = "--gpu=1"
)

// TestNoCounters covers SLICE-05: where the API server drops counters, whole GPUs are
// all that is published, and where it drops taints as well, what would be tainted is
// not.
func TestNoCounters(t *testing.T) {
	e := newEnvOn(t, mixed)
	e.needGate(partitionableDevices, false)
	e.needGate(deviceTaints, false)
	before := e.offered(t.Context())
	if diff := cmp.Diff(map[string]int{h100: 1, l40s: 1, "InfiniBand": 2}, countKinds(before)); diff != "" {
		t.Fatalf("devices by product (-want +got):\n%s", diff)
	}
	e.template("h100", ask("gpu.cleave.dev", product(h100)))
	e.template("slice", ask("mig-1g.10gb.cleave.dev"))
	e.checkCalm(before)
	if out := e.metrics(); strings.Contains(out, "cleave_publish_errors_total{") {
		t.Errorf("slices were rejected or altered, though the plugin asks first:\n%s", out)
	}
	e.waitLogged("only whole GPUs are published")

	e.one(e.start(e.sleeper("whole", mixed, "h100")))
	slice := e.create(e.sleeper("slice", mixed, "slice"))
	message := e.waitUnschedulable(slice)
	if !strings.Contains(message, "cannot allocate all claims") {
		t.Errorf("the pod with a slice does not say why it waits: %s", message)
	}
	t.Logf("SLICE-05: a pod with a slice: %s", message)
	e.deleteAllPods(t.Context())

	e.meetForeignInstance(before, without(before, h100))
	e.loseHeldGPU(before)
}

// TestNoTaints: where the API server drops taints only, slices are published, and what
// would be tainted is left out.
func TestNoTaints(t *testing.T) {
	e := newEnvOn(t, mixed)
	e.needGate(partitionableDevices, true)
	e.needGate(deviceTaints, false)
	before := e.offered(t.Context())
	want := map[string]int{h100: 1, l40s: 1, "InfiniBand": 2}
	maps.Copy(want, h100Slices)
	if diff := cmp.Diff(want, countKinds(before)); diff != "" {
		t.Fatalf("devices by product or profile (-want +got):\n%s", diff)
	}
	e.template("slice", ask("mig-1g.10gb.cleave.dev"))
	e.checkCalm(before)
	e.one(e.start(e.sleeper("slice", mixed, "slice")))
	e.deleteAllPods(t.Context())

	// The instance is handed out as it is (mig.existing: serve, in kind.yaml).
	served := e.obstructed(before)
	maps.DeleteFunc(served, func(_ string, d resourceapi.Device) bool { return kind(d) != "1g.10gb" })
	free := maps.Clone(before)
	for name := range e.obstructed(before) {
		delete(free, name)
	}
	maps.Copy(free, served)
	// In its way are the whole GPU and the slices 7g, 3g at 4, 1g.20gb and 1g+me at 6.
	if len(served) != 1 || len(free) != len(before)-5 {
		t.Fatalf("the instance is to be served as %d devices and leave %d of %d", len(served), len(free), len(before))
	}
	e.meetForeignInstance(before, free)
	e.loseHeldGPU(before)
}

// obstructed are the devices that consume the memory slice in which the foreign
// instance is.
func (e *env) obstructed(all map[string]resourceapi.Device) map[string]resourceapi.Device {
	out := map[string]resourceapi.Device{}
	for name, d := range all {
		for _, c := range d.ConsumesCounters {
			if _, ok := c.Counters["memory-slice-6"]; ok {
				out[name] = d
			}
		}
	}
	return out
}

// meetForeignInstance makes a MIG instance behind the driver's back, on the memory slice
// 6 of the H100, and removes it again. While it is there, what is offered is want.
func (e *env) meetForeignInstance(before, want map[string]resourceapi.Device) {
	e.t.Helper()
	e.undoIfFailed("reset", h100Slot)
	e.mustCtl("mig", h100Slot, "--enabled=true")
	e.mustCtl("create-instance", h100Slot, "--profile=1g.10gb", "--start=6")
	e.waitOffered("with a MIG instance that somebody made", want)
	e.template("large", ask("mig-7g.80gb.cleave.dev"))
	large := e.create(e.sleeper("large", mixed, "large"))
	e.t.Logf("a pod with a slice that overlaps it: %s", e.waitUnschedulable(large))
	e.stop(large)
	state, err := e.hardware(e.t.Context(), mixed)
	if err != nil {
		e.t.Fatal(err)
	}
	if n := len(state.GPUs[0].Instances); n != 1 {
		e.t.Fatalf("the H100 has %d GPU instances, want the one that somebody made", n)
	}
	e.mustCtl("destroy-instance", h100Slot, fmt.Sprintf("--id=%d", state.GPUs[0].Instances[0].ID))
	e.waitOffered("without the instance", before)
}

// loseHeldGPU lets the L40S fall off the bus while a pod holds it, and comes back with a
// reboot. It is offered as long as the pod is there, since what is allocated is never
// withdrawn, and then no more.
func (e *env) loseHeldGPU(before map[string]resourceapi.Device) {
	e.t.Helper()
	e.template("l40s", ask("gpu.cleave.dev", product(l40s)))
	holder := e.start(e.sleeper("holder", mixed, "l40s"))
	e.one(holder)
	e.undoIfFailed("reboot")
	e.mustCtl("lose", l40sSlot)
	e.lookAgain()
	e.waitLogged("A published device is missing")
	e.waitOffered("with a lost GPU that a pod holds", before)
	e.stop(holder)
	e.waitOffered("with a lost GPU that nobody holds", without(before, l40s))
	next := e.create(e.sleeper("next", mixed, "l40s"))
	e.t.Logf("a pod that wants the lost GPU: %s", e.waitUnschedulable(next))
	e.mustCtl("reboot")
	e.waitOffered("after the reboot", before)
	e.one(e.ready(next.Name))
	e.stop(next)
}

// without leaves out the whole GPUs of a product.
func without(all map[string]resourceapi.Device, product string) map[string]resourceapi.Device {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(_ string, d resourceapi.Device) bool { return kind(d) == product })
	return out
}

// waitOffered makes the plugin look at its hardware and waits until exactly these
// devices are offered, none of them is tainted, the plugin is ready, and nothing is
// written any more.
func (e *env) waitOffered(when string, want map[string]resourceapi.Device) {
	e.t.Helper()
	e.lookAgain()
	e.eventually(podTimeout, when+": the right devices are offered", func(ctx context.Context) error {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(e.offered(ctx)))); diff != "" {
			return fmt.Errorf("devices (-want +got):\n%s", diff)
		}
		return nil
	})
	e.eventually(podTimeout, when+": the plugin is ready", func(ctx context.Context) error {
		_, err := e.get(ctx, mixed, "readyz")
		return err
	})
	e.checkCalm(want)
}

// checkCalm checks that what is offered keeps to what the API server has, and that no
// slice is written for a while: what was dropped once is not tried again and again.
func (e *env) checkCalm(offered map[string]resourceapi.Device) {
	e.t.Helper()
	list, err := e.Slices(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	counters := 0
	for _, s := range list {
		counters += len(s.Spec.SharedCounters)
	}
	split := slices.ContainsFunc(slices.Collect(maps.Values(offered)), func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 })
	if (counters > 0) != split {
		e.t.Errorf("there are %d counter sets; devices consume counters: %v", counters, split)
	}
	for name, d := range e.offered(e.t.Context()) {
		if len(d.Taints) > 0 {
			e.t.Errorf("%s is tainted, on an API server that drops taints: %+v", name, d.Taints)
		}
	}
	if wrote := e.watchSlices(3 * time.Second); len(wrote) > 0 {
		e.t.Errorf("slices are written again and again:\n%s", strings.Join(wrote, "\n"))
	}
}

// offered are all devices of the driver, by name.
func (e *env) offered(ctx context.Context) map[string]resourceapi.Device {
	e.t.Helper()
	published, err := e.Published(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	out := map[string]resourceapi.Device{}
	for key, p := range published {
		out[key.Device] = p.Device
	}
	return out
}

func countKinds(all map[string]resourceapi.Device) map[string]int {
	out := map[string]int{}
	for _, d := range all {
		out[kind(d)]++
	}
	return out
}

// needGate checks that the cluster is the right one, by what its API server says.
func (e *env) needGate(name string, on bool) {
	e.t.Helper()
	raw, err := e.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(e.t.Context())
	if err != nil {
		e.t.Fatalf("read the API server's metrics: %v", err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, fmt.Sprintf("kubernetes_feature_enabled{name=%q,", name)) {
			if got := strings.HasSuffix(strings.TrimSpace(line), " 1"); got != on {
				e.t.Fatalf("%s on this cluster is %v; this test wants %v: use `make e2e-gates`", name, got, on)
			}
			return
		}
	}
	e.t.Fatalf("the API server does not know the feature gate %s any more: what is this test for?", name)
}

func (e *env) mustCtl(args ...string) {
	e.t.Helper()
	if _, err := e.ctl(e.t.Context(), mixed, args...); err != nil {
		e.t.Fatal(err)
	}
}

// undoIfFailed leaves hardware as others want to find it, when a test ends half-way.
func (e *env) undoIfFailed(args ...string) {
	e.t.Cleanup(func() {
		if !e.t.Failed() {
			return
		}
		if _, err := e.ctl(context.WithoutCancel(e.t.Context()), mixed, args...); err != nil {
			e.t.Error(err)
		}
	})
}

// lookAgain makes the plugin look at its hardware now rather than within the minute: it
// does when another driver's slices on its node change.
func (e *env) lookAgain() {
	e.t.Helper()
	all, node := e.Client.ResourceV1().ResourceSlices(), e.nodes[mixed]
	slice, err := all.Create(e.t.Context(), &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cleave-e2e-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "e2e.example.com", NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		err = all.Delete(e.t.Context(), slice.Name, metav1.DeleteOptions{})
	}
	if err != nil {
		e.t.Fatalf("wake the plugin: %v", err)
	}
}

func (e *env) metrics() string {
	e.t.Helper()
	out, err := e.get(e.t.Context(), mixed, "metrics")
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// waitLogged waits until the plugin has said something to whoever runs the cluster.
func (e *env) waitLogged(text string) {
	e.t.Helper()
	e.eventually(podTimeout, fmt.Sprintf("the plugin has logged %q", text), func(ctx context.Context) error {
		pod, err := e.pluginPod(ctx, mixed)
		if err != nil {
			return err
		}
		out, err := e.Logs(ctx, pod.Namespace, pod.Name, pluginContainer, 1000)
		if err == nil && !strings.Contains(out, text) {
			err = errors.New("it has not")
		}
		return err
	})
}
