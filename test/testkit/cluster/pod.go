package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Ready tells whether all containers of the pod run and are ready.
func Ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Ended tells whether the pod will never run (again).
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// WaitReady waits until the pod is ready. The error of a pod that does not get
// there explains why, with the pod's events.
func (c *Cluster) WaitReady(ctx context.Context, namespace, name string, timeout time.Duration) (*corev1.Pod, error) {
	return c.WaitPod(ctx, namespace, name, timeout, "ready", func(pod *corev1.Pod) (bool, error) {
		if Ended(pod) {
			return false, fmt.Errorf("it ended in phase %s", pod.Status.Phase)
		}
		return Ready(pod), nil
	})
}

// WaitPod waits until reached is true for the pod or fails; what names the state
// that is waited for.
func (c *Cluster) WaitPod(
	ctx context.Context, namespace, name string, timeout time.Duration, what string,
	reached func(*corev1.Pod) (bool, error),
) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, transient(err)
		}
		pod = p
		return reached(p)
	})
	if err != nil {
		return nil, fmt.Errorf("wait up to %s until pod %s/%s is %s: %w\n%s", timeout, namespace, name, what, err, c.Explain(ctx, namespace, name))
	}
	return pod, nil
}

// WaitGone waits until the pod with this UID is gone from the API server, which
// is after the kubelet has stopped it and released its devices.
func (c *Cluster) WaitGone(ctx context.Context, namespace, name string, uid types.UID, timeout time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && p.UID != uid {
			return true, nil
		}
		return false, transient(err)
	})
	if err != nil {
		return fmt.Errorf("wait up to %s until pod %s/%s is gone: %w\n%s", timeout, namespace, name, err, c.Explain(ctx, namespace, name))
	}
	return nil
}
