package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/pkg/node"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// taints lists our devices in the API server, by name, with their taint keys.
func (f *fixture) taints(ctx context.Context) (map[string]string, error) {
	all, err := f.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range all.Items {
		if s.Spec.Driver != driverName {
			continue
		}
		for _, d := range s.Spec.Devices {
			var keys []string
			for _, taint := range d.Taints {
				keys = append(keys, taint.Key)
			}
			out[d.Name] = strings.Join(keys, " ")
		}
	}
	return out, nil
}

// awaitTaint waits until a device has exactly the taint; "-" means not published.
func (f *fixture) awaitTaint(device, want string) {
	f.t.Helper()
	f.await(fmt.Sprintf("%s has taint %q", device, want), func(ctx context.Context) error {
		all, err := f.taints(ctx)
		if err != nil {
			return err
		}
		got, ok := all[device]
		if !ok {
			got = "-"
		}
		if got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// holdsFor sees a device keep its taint over several rescans.
func (f *fixture) holdsFor(device, want string, d time.Duration) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.awaitTaint(device, want)
	}
}

const threeParts = `{"apiVersion":"cleave.dev/v1alpha1","kind":"MIGConfig","computeInstances":[{"slices":1,"count":3}]}`

// TestPrepareComputeInstances divides one slice into three MIG devices, all of
// which the claim is given.
func TestPrepareComputeInstances(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.configured("a", threeParts, f.slice(0, "3g.40gb", 4))
	f.mustPrepare(c)
	in := f.hw.State().GPUs[0].Instances
	if len(in) != 1 || len(in[0].Compute) != 3 {
		t.Fatalf("instances: %+v, want one with three compute instances", in)
	}
	// The GPU's node, the GPU instance's and one for each compute instance.
	if nodes := f.nodesOf("a")["uid-a-0"]; len(nodes) != 5 {
		t.Errorf("device nodes: %v, want five", nodes)
	}
	f.mustPrepare(c) // and again, from the journal
	f.mustUnprepare(c)
	f.mustBeClean()
	f.mustRefuse(f.configured("b", strings.Replace(threeParts, "3}", "4}", 1), f.slice(0, "3g.40gb", 4)), "4 compute slices in all", "has 3")
	f.mustBeClean()
}

// TestStatusMETR01: what was made is in the claim's status, and an Event says so.
func TestStatusMETR01(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	uuid := f.hw.State().GPUs[0].Instances[0].Compute[0].UUID
	f.await("the status has the MIG device", func(ctx context.Context) error {
		got, err := f.kube.ResourceV1().ResourceClaims("ns").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		devices := got.Status.Devices
		if len(devices) != 1 {
			return fmt.Errorf("devices: %+v", devices)
		}
		d := devices[0]
		if d.Driver != driverName || d.Pool != pool || d.Device != f.slice(0, "1g.10gb", 6) || !strings.Contains(string(d.Data.Raw), uuid) {
			return fmt.Errorf("device %+v with data %s", d, d.Data.Raw)
		}
		if len(d.Conditions) != 1 || d.Conditions[0].Type != "Ready" || d.Conditions[0].Status != metav1.ConditionTrue {
			return fmt.Errorf("conditions: %+v", d.Conditions)
		}
		return nil
	})
	f.await("an Event names the MIG device", func(ctx context.Context) error {
		events, err := f.kube.EventsV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.UID == c.UID && e.Reason == "Prepared" && strings.Contains(e.Note, uuid) {
				return nil
			}
		}
		return fmt.Errorf("events: %+v", events.Items)
	})
	f.mustUnprepare(c)
	f.await("the status is withdrawn", func(ctx context.Context) error {
		got, err := f.kube.ResourceV1().ResourceClaims("ns").Get(ctx, "a", metav1.GetOptions{})
		if err == nil && len(got.Status.Devices) > 0 {
			err = fmt.Errorf("devices: %+v", got.Status.Devices)
		}
		return err
	})
}

// TestPrepareWaitsPREP04: a claim that comes before its predecessor has let go waits
// for it, instead of costing its pod a minute.
func TestPrepareWaitsPREP04(t *testing.T) {
	f := newFixture(t, "mixed", with(func(c *node.Config) { c.HeldPatience = time.Minute }))
	first, second := f.claim("a", f.whole(1)), f.claim("b", f.whole(1))
	f.mustPrepare(first)
	done := make(chan error, 1)
	go func() {
		_, err := f.prepare(second)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("prepared while another claim holds the device: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	f.mustUnprepare(first)
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.mustUnprepare(second)
	f.mustBeClean()
}

// TestExistingMIGD04: instances that no claim made are never touched, and what
// overlaps them is not handed out.
func TestExistingMIGD04(t *testing.T) {
	f := newFixture(t, "mixed")
	f.makeForeign("1g.10gb", 6)
	f.awaitTaint(f.whole(0), slices.TaintForeignInstance)
	f.awaitTaint(f.slice(0, "3g.40gb", 4), slices.TaintForeignInstance)
	f.awaitTaint(f.slice(0, "3g.40gb", 0), "")
	f.mustRefuse(f.claim("a", f.slice(0, "1g.10gb", 6)), "GPU instance", "no claim made")
	c := f.claim("b", f.slice(0, "3g.40gb", 0))
	f.mustPrepare(c)
	f.mustUnprepare(c)
	if diff := cmp.Diff([]string{"0:1g.10gb@6"}, f.instances()); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

// TestExistingServed: a node that was partitioned beforehand hands its slices out as
// they are, and keeps them.
func TestExistingServed(t *testing.T) {
	f := newFixture(t, "mixed", with(func(c *node.Config) { c.ServeExisting = true }))
	f.makeForeign("1g.10gb", 6)
	f.awaitTaint(f.whole(0), slices.TaintForeignInstance)
	f.awaitTaint(f.slice(0, "1g.10gb", 6), "")
	before := f.hw.State().GPUs
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	if nodes := f.nodesOf("a")["uid-a-0"]; len(nodes) != 3 {
		t.Errorf("device nodes %v, want three", nodes)
	}
	f.mustRefuse(f.claim("b", f.slice(0, "1g.10gb", 6)), "ns/a")
	f.mustUnprepare(c)
	if diff := cmp.Diff(before, f.hw.State().GPUs); diff != "" {
		t.Errorf("the hardware has changed:\n%s", diff)
	}
}

// makeForeign makes a MIG device as an administrator would.
func (f *fixture) makeForeign(profile string, start int) {
	f.t.Helper()
	for _, args := range [][]string{{"mig", "--gpu=0", "--enabled=true"}, {"create-instance", "--gpu=0", "--profile=" + profile, fmt.Sprintf("--start=%d", start)}} {
		if _, err := f.hw.Ctl(args...); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestKeepMIGMode: told to leave the mode alone, the plugin offers what it allows.
func TestKeepMIGMode(t *testing.T) {
	f := newFixture(t, "mixed", with(func(c *node.Config) { c.KeepMIGMode = true }))
	f.awaitTaint(f.whole(0), "")
	f.awaitTaint(f.slice(0, "1g.10gb", 6), "-")
	f.mustRefuse(f.claim("a", f.slice(0, "1g.10gb", 6)), "MIG mode of GPU", "is off")
	if f.hw.State().GPUs[0].MIGEnabled {
		t.Error("the mode was changed")
	}
}

// TestRival: two drivers that offer the same GPUs give them away twice, so nothing
// is published, readiness says why, and all is back when the other one is gone.
func TestRival(t *testing.T) {
	f := newFixture(t, "mixed")
	f.awaitTaint(f.whole(1), "")
	rival := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "rival"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "other.example", NodeName: ptr.To(nodeName), Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "d", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"resource.kubernetes.io/pciBusID": {StringValue: ptr.To("0000:3b:00.0")},
		}}},
	}}
	others := f.kube.ResourceV1().ResourceSlices()
	if _, err := others.Create(t.Context(), rival, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitTaint(f.whole(1), "-")
	f.await("readiness says why", func(ctx context.Context) error {
		if err := f.plugin.Ready(ctx); err == nil || !strings.Contains(err.Error(), "DRA driver other.example") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	if err := others.Delete(t.Context(), "rival", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitTaint(f.whole(1), "")
	f.await("the plugin is ready again", f.plugin.Ready)
}

// TestRivalDevicePlugin: a device plugin is seen by the node's resources; while
// claims hold devices those go on being published.
func TestRivalDevicePlugin(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.whole(1))
	f.mustPrepare(c)
	n, err := f.kube.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	if _, err := f.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitTaint(f.whole(1), node.TaintRival)
	f.mustUnprepare(c)
	f.awaitTaint(f.whole(1), "-")
	f.await("readiness names the resource", func(ctx context.Context) error {
		if err := f.plugin.Ready(ctx); err == nil || !strings.Contains(err.Error(), "nvidia.com/gpu") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	f.stop()
	f.configure = func(c *node.Config) { c.AllowCoexistence = true }
	f.start()
	f.awaitTaint(f.whole(1), "")
}
