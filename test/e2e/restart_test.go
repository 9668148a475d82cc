//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPluginRestart: the plugin's pod goes and another comes. Pods that run do not
// notice, the slices stay, a new pod gets its slice, and the metrics go on.
func TestPluginRestart(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	running := e.start(e.sleeper("running", dgx, "mig"))
	had := e.one(running)
	before, sockets := e.pool(), e.sockets()
	plugin, err := e.pluginPod(t.Context(), dgx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Client.CoreV1().Pods(plugin.Namespace).Delete(t.Context(), plugin.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete the plugin's pod: %v", err)
	}
	// SLICE-04: the new pod may be bound before the plugin is back, and waits.
	next := e.create(e.sleeper("next", dgx, "mig"))
	e.waitPlugin(dgx, plugin.UID)
	e.one(e.readyAgain(next.Name))
	if still := e.one(e.ready(running.Name)); still.MIG.UUID != had.MIG.UUID {
		t.Errorf("the running pod had %s and now has %s", had.MIG.UUID, still.MIG.UUID)
	}
	e.waitSamePool(before)
	if diff := cmp.Diff(sockets, e.sockets()); diff != "" {
		t.Errorf("sockets (-before +after):\n%s", diff)
	}
	const prepared = `nvidia_dra_prepared_devices{device_type="mig",driver="cleave.dev"} `
	e.waitMetrics(prepared + "2") // METR-04: those of the earlier process count
	e.stop(running)               // prepared by the one, released by the other
	e.waitMetrics(prepared + "1")
}

// waitPlugin waits until a plugin other than the old one is ready on a node.
func (e *env) waitPlugin(server string, old types.UID) {
	e.t.Helper()
	e.eventually(podTimeout, "a new plugin is ready on "+server, func(ctx context.Context) error {
		pod, err := e.pluginPod(ctx, server)
		if err != nil {
			return err
		}
		if pod.UID == old {
			return errors.New("it is still the old one")
		}
		_, err = e.WaitReady(ctx, pod.Namespace, pod.Name, time.Second)
		return err
	})
}

// sockets are those by which the kubelet knows the plugin.
func (e *env) sockets() string {
	e.t.Helper()
	return e.on(dgx, "find /var/lib/kubelet/plugins_registry "+pluginDir+" -type s | sort")
}

// waitSamePool waits until what is published is what was, and all slices of each
// pool are there.
func (e *env) waitSamePool(before any) {
	e.t.Helper()
	e.eventually(podTimeout, "the same devices are published", func(ctx context.Context) error {
		list, err := e.Slices(ctx)
		if err != nil {
			return err
		}
		count, generation := map[string]int64{}, map[string]int64{}
		for _, s := range list {
			generation[s.Spec.Pool.Name] = max(generation[s.Spec.Pool.Name], s.Spec.Pool.Generation)
		}
		for _, s := range list {
			if s.Spec.Pool.Generation == generation[s.Spec.Pool.Name] {
				count[s.Spec.Pool.Name]++
			}
		}
		for _, s := range list {
			if n := count[s.Spec.Pool.Name]; n != s.Spec.Pool.ResourceSliceCount {
				return fmt.Errorf("pool %s has %d of %d slices", s.Spec.Pool.Name, n, s.Spec.Pool.ResourceSliceCount)
			}
		}
		if diff := cmp.Diff(before, any(e.pool())); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
}

// TestKubeletRestart covers SLICE-03: the kubelet deletes the node's slices when
// it starts, and the plugin, which goes on running, publishes them again.
func TestKubeletRestart(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	running := e.start(e.sleeper("running", dgx, "mig"))
	had := e.one(running)
	before := e.pool()
	plugin, err := e.pluginPod(t.Context(), dgx)
	if err != nil {
		t.Fatal(err)
	}
	// The node's shell comes through the kubelet too, so let systemd do it later.
	e.on(dgx, "systemd-run --collect --on-active=2 systemctl restart kubelet")
	e.eventually(podTimeout, "the kubelet has deleted the slices of its node", func(ctx context.Context) error {
		published, err := e.Published(ctx)
		if err != nil {
			return err
		}
		for _, d := range published {
			if d.Node == e.nodes[dgx] {
				return fmt.Errorf("there are %d devices", len(published))
			}
		}
		return nil
	})
	began := time.Now()
	e.waitSamePool(before)
	t.Logf("SLICE-03: the slices were back after %s", time.Since(began).Round(time.Second))
	e.one(e.start(e.sleeper("next", dgx, "mig")))
	if still := e.one(e.ready(running.Name)); still.MIG.UUID != had.MIG.UUID {
		t.Errorf("the running pod had %s and now has %s", had.MIG.UUID, still.MIG.UUID)
	}
	after, err := e.pluginPod(t.Context(), dgx)
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != plugin.UID || restarts(after) != restarts(plugin) {
		t.Errorf("the plugin was restarted")
	}
}

func restarts(pod *corev1.Pod) int32 { return pod.Status.ContainerStatuses[0].RestartCount }

// TestPluginKilled: the plugin's process is killed while it makes slices, again
// and again. All pods run in the end, and when they are gone nothing is left.
func TestPluginKilled(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	sockets := e.sockets()
	var pods []*corev1.Pod
	for round := range 2 {
		for i := range 4 {
			pods = append(pods, e.create(e.sleeper(fmt.Sprintf("pod-%d-%d", round, i), dgx, "mig")))
		}
		e.killWhileBusy(len(pods))
	}
	for _, pod := range pods {
		e.one(e.readyAgain(pod.Name))
	}
	// While they are released, too.
	for _, pod := range pods {
		if err := e.Client.CoreV1().Pods(e.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete pod: %v", err)
		}
	}
	e.on(dgx, "pkill -KILL -x cleave-node")
	e.deleteAllPods(t.Context())
	if left := e.waitClean(t.Context()); left != "" {
		t.Errorf("after the plugin was killed and all pods are gone there is left:\n%s", left)
	}
	e.eventually(podTimeout, "REST-08: as many sockets as before", func(ctx context.Context) error {
		if diff := cmp.Diff(sockets, e.sockets()); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
}

// killWhileBusy kills the plugin when a record has been begun and not finished, or
// after a while, whatever comes first: in both cases nothing may be lost.
func (e *env) killWhileBusy(records int) {
	e.t.Helper()
	out := e.on(dgx, fmt.Sprintf(`
		for n in $(seq 400); do
			if grep -qs '"state": *"Begun"' %[1]s/claims/*; then echo in the middle; break; fi
			if [ $(find %[1]s/claims -name '*.json' | wc -l) -ge %[2]d ]; then echo at the end; break; fi
			sleep 0.01
		done
		for n in $(seq 200); do pkill -KILL -x cleave-node && exit; sleep 0.1; done
		exit 1`, pluginDir, records))
	e.t.Logf("killed the plugin %s", strings.TrimSpace(out))
}
