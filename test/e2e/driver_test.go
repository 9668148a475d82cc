//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Where the installed driver and the simulator keep their things on a node.
const (
	pluginDir     = "/var/lib/kubelet/plugins/cleave.dev"
	cdiDir        = "/var/run/cdi"
	simulatedRoot = "/var/lib/cleave-simhw/root"

	pluginContainer = "cleave-node"
	pluginSelector  = "app.kubernetes.io/name=cleave,app.kubernetes.io/component in (node, node-training)"
)

// pluginPod is the node plugin's running pod on a node.
func (e *env) pluginPod(ctx context.Context, server string) (*corev1.Pod, error) {
	return e.runningPod(ctx, server, pluginSelector)
}

// simulatorPod is the pod of the simulated hardware on a node.
func (e *env) simulatorPod(ctx context.Context, server string) (*corev1.Pod, error) {
	return e.runningPod(ctx, server, "app.kubernetes.io/name=cleave,app.kubernetes.io/component=simhw-"+server)
}

func (e *env) runningPod(ctx context.Context, server, selector string) (*corev1.Pod, error) {
	list, err := e.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "spec.nodeName=" + e.nodes[server],
	})
	if err != nil {
		return nil, fmt.Errorf("list pods with %s: %w", selector, err)
	}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return &p, nil
		}
	}
	return nil, fmt.Errorf("no pod with %s runs on %s", selector, e.nodes[server])
}

// ctl asks the simulated hardware of a node, or changes it.
func (e *env) ctl(ctx context.Context, server string, args ...string) (string, error) {
	pod, err := e.simulatorPod(ctx, server)
	if err != nil {
		return "", err
	}
	command := append([]string{"cleave-simhw", "ctl"}, args...)
	return e.Exec(ctx, pod.Namespace, pod.Name, "", append(command, "--root", simulatedRoot)...)
}

// hardware is the state of the simulated hardware of a node.
func (e *env) hardware(ctx context.Context, server string) (simhw.Snapshot, error) {
	var state simhw.Snapshot
	out, err := e.ctl(ctx, server, "list")
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		return state, fmt.Errorf("read what the simulator on %s lists: %w", server, err)
	}
	if len(state.GPUs) == 0 {
		return state, fmt.Errorf("the simulator on %s lists no GPU:\n%s", server, out)
	}
	return state, nil
}

// gpu is the state of one simulated GPU.
func (e *env) gpu(server, uuid string) simhw.GPUState {
	e.t.Helper()
	state, err := e.hardware(e.t.Context(), server)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, g := range state.GPUs {
		if g.UUID == uuid {
			return g
		}
	}
	e.t.Fatalf("the simulator on %s has no GPU %s", server, uuid)
	return simhw.GPUState{}
}
