//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPluginAbsent covers SLICE-04: while the plugin is gone, a pod that was bound
// to its node waits with an Event, and it runs when the plugin is back, without
// anybody's help.
func TestPluginAbsent(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	before := e.pool()
	set := e.pluginSet(dgx)
	t.Cleanup(func() { e.selectNodes(set, "null") })
	e.selectNodes(set, `{"cleave.dev/e2e": "none"}`)
	e.eventually(podTimeout, "the plugin is gone", func(ctx context.Context) error {
		list, err := e.Client.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector),
		})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	pod := e.create(e.sleeper("waits", dgx, "mig"))
	t.Logf("SLICE-04: %s", e.waitEvent(pod, "FailedPrepareDynamicResources"))
	e.selectNodes(set, "null")
	e.one(e.readyAgain(pod.Name))
	e.waitSamePool(before)
}

// pluginSet is the DaemonSet of the node plugin on a node.
func (e *env) pluginSet(server string) *appsv1.DaemonSet {
	e.t.Helper()
	pod, err := e.pluginPod(e.t.Context(), server)
	if err != nil {
		e.t.Fatal(err)
	}
	set, err := e.Client.AppsV1().DaemonSets(pod.Namespace).Get(e.t.Context(), metav1.GetControllerOf(pod).Name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatalf("get the DaemonSet of pod %s: %v", pod.Name, err)
	}
	return set
}

// selectNodes sets the node selector of a DaemonSet, as JSON.
func (e *env) selectNodes(set *appsv1.DaemonSet, selector string) {
	e.t.Helper()
	patch := fmt.Sprintf(`{"spec": {"template": {"spec": {"nodeSelector": %s}}}}`, selector)
	_, err := e.Client.AppsV1().DaemonSets(set.Namespace).Patch(context.WithoutCancel(e.t.Context()),
		set.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.t.Errorf("set the node selector of %s: %v", set.Name, err)
	}
}
