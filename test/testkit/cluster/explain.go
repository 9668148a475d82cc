package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Explain says in a few lines where a pod stands and what happened to it: phase,
// conditions that are not true, waiting containers, and its events. It works
// after ctx has ended, since that is when somebody wants to know.
func (c *Cluster) Explain(ctx context.Context, namespace, name string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var b strings.Builder
	pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		fmt.Fprintf(&b, "  pod: %v\n", err)
	} else {
		describe(&b, pod)
	}
	events, err := c.Events(ctx, namespace, name)
	if err != nil {
		fmt.Fprintf(&b, "  events: %v\n", err)
	}
	for _, e := range events {
		fmt.Fprintf(&b, "  event %s %s (x%d): %s\n", e.Type, e.Reason, max(e.Count, 1), e.Message)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Events are the events about the pod of that name, oldest first.
func (c *Cluster) Events(ctx context.Context, namespace, pod string) ([]corev1.Event, error) {
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": pod}
	list, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
	if err != nil {
		return nil, fmt.Errorf("list events of pod %s/%s: %w", namespace, pod, err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Compare(last(a).UnixNano(), last(b).UnixNano())
	})
	return list.Items, nil
}

// last is when an event was last seen; which field has it depends on the sender.
func last(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

func describe(b *strings.Builder, pod *corev1.Pod) {
	fmt.Fprintf(b, "  pod is %s on node %q", pod.Status.Phase, pod.Spec.NodeName)
	if pod.DeletionTimestamp != nil {
		fmt.Fprint(b, ", being deleted")
	}
	fmt.Fprintln(b)
	for _, cond := range pod.Status.Conditions {
		if cond.Status != corev1.ConditionTrue {
			fmt.Fprintf(b, "  %s is %s: %s %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			fmt.Fprintf(b, "  container %s waits: %s %s\n", s.Name, w.Reason, w.Message)
		}
		if t := s.State.Terminated; t != nil {
			fmt.Fprintf(b, "  container %s ended with %d: %s %s\n", s.Name, t.ExitCode, t.Reason, t.Message)
		}
	}
}
