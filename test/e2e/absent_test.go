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
	set := e.pluginSet()
	t.Cleanup(func() { e.selectNodes(set, "null") })
	e.selectNodes(set, `{"cleave.dev/e2e": "none"}`)
	e.eventually(podTimeout, "the plugins are gone", func(ctx context.Context) error {
		list, err := e.Client.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{LabelSelector: pluginSelector})
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

// pluginSet is the node plugin's DaemonSet.
func (e *env) pluginSet() *appsv1.DaemonSet {
	e.t.Helper()
	list, err := e.Client.AppsV1().DaemonSets("").List(e.t.Context(), metav1.ListOptions{LabelSelector: pluginSelector})
	if err != nil || len(list.Items) != 1 {
		e.t.Fatalf("want one DaemonSet of the node plugin, have %d (%v)", len(list.Items), err)
	}
	return &list.Items[0]
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
