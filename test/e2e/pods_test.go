//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// The container of pods that have one, and the name of their claim.
const (
	mainContainer = "main"
	mainClaim     = "device"
	mainRequest   = "r"
)

// sleep runs until it is told to stop, and then ends at once.
const sleep = "trap 'exit 0' TERM; sleep infinity & wait"

// ask is a claim with one request.
func ask(class string, cel ...string) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request(mainRequest, class, cel...)}}}
}

// request is for one device of a class, which the expressions narrow down.
func request(name, class string, cel ...string) resourceapi.DeviceRequest {
	exact := &resourceapi.ExactDeviceRequest{DeviceClassName: class}
	for _, expression := range cel {
		exact.Selectors = append(exact.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: exact}
}

// product selects GPUs by their product name.
func product(name string) string {
	return fmt.Sprintf("device.attributes[%q].productName == %q", cluster.DriverName, name)
}

// template creates a claim template.
func (e *env) template(name string, spec resourceapi.ResourceClaimSpec) {
	e.t.Helper()
	_, err := e.Client.ResourceV1().ResourceClaimTemplates(e.namespace).Create(e.t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("create claim template %s: %v", name, err)
	}
}

// sleeper is a pod with one container, on the node of a simulated server, whose
// claim is made from the template.
func (e *env) sleeper(name, server, template string) *corev1.Pod {
	grace := int64(5)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{"cleave.dev/simulated": server},
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			ResourceClaims:                []corev1.PodResourceClaim{{Name: mainClaim, ResourceClaimTemplateName: &template}},
			Containers:                    []corev1.Container{e.container(mainContainer, sleep, corev1.ResourceClaim{Name: mainClaim})},
		},
	}
	return pod
}

// container runs a script with some of the pod's claims.
func (e *env) container(name, script string, claims ...corev1.ResourceClaim) corev1.Container {
	return corev1.Container{
		Name: name, Image: e.image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"bash", "-c", script}, Resources: corev1.ResourceRequirements{Claims: claims},
	}
}

// create creates a pod.
func (e *env) create(pod *corev1.Pod) *corev1.Pod {
	e.t.Helper()
	pod, err := e.Client.CoreV1().Pods(e.namespace).Create(e.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("create pod: %v", err)
	}
	return pod
}

// start creates a pod and waits until it is ready.
func (e *env) start(pod *corev1.Pod) *corev1.Pod {
	e.t.Helper()
	e.create(pod)
	return e.ready(pod.Name)
}

func (e *env) ready(name string) *corev1.Pod {
	e.t.Helper()
	pod, err := e.WaitReady(e.t.Context(), e.namespace, name, podTimeout)
	if err != nil {
		e.t.Fatal(err)
	}
	return pod
}

// readyAgain is ready for a pod that could not be prepared at first. The kubelet
// tries that again after 60 to 90 seconds, or when the pod changes, so it is changed.
func (e *env) readyAgain(name string) *corev1.Pod {
	e.t.Helper()
	pods, last := e.Client.CoreV1().Pods(e.namespace), time.Time{}
	pod, err := e.WaitPod(e.t.Context(), e.namespace, name, podTimeout, "ready at last", func(p *corev1.Pod) (bool, error) {
		if cluster.Ready(p) || time.Since(last) < 3*time.Second {
			return cluster.Ready(p), nil
		}
		last = time.Now()
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"cleave.dev/e2e": %q}}}`, last.Format(time.StampMilli))
		_, err := pods.Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return false, err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return pod
}

// stop deletes a pod and waits until it is gone.
func (e *env) stop(pod *corev1.Pod) {
	e.t.Helper()
	if err := e.Client.CoreV1().Pods(e.namespace).Delete(e.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatalf("delete pod %s: %v", pod.Name, err)
	}
	if err := e.WaitGone(e.t.Context(), e.namespace, pod.Name, pod.UID, podTimeout); err != nil {
		e.t.Fatal(err)
	}
}

// deleteAllPods deletes the test's pods and waits until they are gone.
func (e *env) deleteAllPods(ctx context.Context) {
	pods, err := e.Client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Errorf("list pods: %v", err)
		return
	}
	for _, p := range pods.Items {
		err := e.Client.CoreV1().Pods(e.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			e.t.Errorf("delete pod %s: %v", p.Name, err)
		}
	}
	for _, p := range pods.Items {
		if err := e.WaitGone(ctx, e.namespace, p.Name, p.UID, podTimeout); err != nil {
			e.t.Error(err)
		}
	}
}

// look checks that the container sees exactly its devices and returns them.
func (e *env) look(pod *corev1.Pod, container string) []cluster.Seen {
	e.t.Helper()
	seen, err := e.Look(e.t.Context(), pod, container)
	if err != nil {
		e.t.Fatal(err)
	}
	return seen
}

// one is look for a container that has one device.
func (e *env) one(pod *corev1.Pod) cluster.Seen {
	e.t.Helper()
	seen := e.look(pod, mainContainer)
	if len(seen) != 1 {
		e.t.Fatalf("pod %s: want one device, got %d", pod.Name, len(seen))
	}
	return seen[0]
}

// in runs a script in a container of a pod; the script's arguments are $1, $2...
func (e *env) in(pod *corev1.Pod, container, script string, args ...string) string {
	e.t.Helper()
	command := append([]string{"bash", "-c", script, "bash"}, args...)
	out, err := e.Exec(e.t.Context(), pod.Namespace, pod.Name, container, command...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}
