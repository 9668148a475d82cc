//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The products of the mixed server; it has one of each.
const (
	h100 = "NVIDIA H100 80GB HBM3"
	l40s = "NVIDIA L40S"
)

// TestWholeGPUAndItsSlicesExcludeEachOther covers DISC-09.
func TestWholeGPUAndItsSlicesExcludeEachOther(t *testing.T) {
	e := newEnv(t)
	e.template("slice", ask("mig-1g.10gb.cleave.dev"))
	e.template("whole", ask("gpu.cleave.dev", product(h100)))
	for _, order := range [][2]string{{"slice", "whole"}, {"whole", "slice"}} {
		e.run("DISC-09/"+order[0]+" first", func(e *env) {
			first := e.start(e.sleeper(order[0], mixed, order[0]))
			second := e.create(e.sleeper(order[1], mixed, order[1]))
			e.t.Logf("DISC-09: %s", e.waitUnschedulable(second))
			e.one(first) // undisturbed
			e.stop(first)
			second = e.ready(second.Name)
			e.one(second)
			e.stop(second)
		})
	}
}

// waitUnschedulable waits until the scheduler has given up on a pod for now, and
// returns what it says.
func (e *env) waitUnschedulable(pod *corev1.Pod) string {
	e.t.Helper()
	var message string
	_, err := e.WaitPod(e.t.Context(), pod.Namespace, pod.Name, podTimeout, "unschedulable", func(p *corev1.Pod) (bool, error) {
		if p.Spec.NodeName != "" {
			return false, fmt.Errorf("it was scheduled to %s", p.Spec.NodeName)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				message = c.Message
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return message
}

// TestDoubleAllocation covers PREP-03: a scheduler that gives one device to two
// claims, here by hand, is not believed by the node.
func TestDoubleAllocation(t *testing.T) {
	e := newEnv(t)
	e.template("holder", ask("gpu.cleave.dev", product(l40s)))
	holder := e.start(e.sleeper("holder", mixed, "holder"))
	held := e.one(holder)
	thief := e.steal("thief", held.Claim)
	message := e.waitEvent(thief, "FailedPrepareDynamicResources")
	if want := e.namespace + "/" + held.Claim.Name; !strings.Contains(message, want) {
		t.Errorf("the event does not name the claim %s that holds the device: %s", want, message)
	}
	t.Logf("PREP-03: %s", message)
	e.one(holder) // undisturbed
	e.stop(holder)
	thief = e.readyAgain(thief.Name)
	if got := e.one(thief).GPU.UUID; got != held.GPU.UUID {
		t.Errorf("the second pod has GPU %s, want %s", got, held.GPU.UUID)
	}
}

// steal makes a pod whose claim has the allocation of another claim.
func (e *env) steal(name string, from *resourceapi.ResourceClaim) *corev1.Pod {
	e.t.Helper()
	ctx, claims := e.t.Context(), e.Client.ResourceV1().ResourceClaims(e.namespace)
	claim, err := claims.Create(ctx, &resourceapi.ResourceClaim{
		// The finalizer is the scheduler's, by which the claim controller knows
		// an allocated claim.
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{resourceapi.Finalizer}}, Spec: from.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("create claim %s: %v", name, err)
	}
	pod := e.sleeper(name, mixed, "")
	pod.Spec.NodeName = e.nodes[mixed] // past the scheduler
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: mainClaim, ResourceClaimName: &name}}
	pod = e.create(pod)
	claim.Status.Allocation = from.Status.Allocation.DeepCopy()
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		e.t.Fatalf("allocate claim %s: %v", name, err)
	}
	return pod
}

// TestForceDeletedPod covers PREP-04: a pod that is deleted by force frees its
// claim in the API before its containers have ended.
func TestForceDeletedPod(t *testing.T) {
	e := newEnv(t)
	e.template("only", ask("gpu.cleave.dev", product(l40s)))
	stubborn := e.sleeper("stubborn", mixed, "only")
	stubborn.Spec.Containers[0].Command[2] = "trap '' TERM; sleep infinity & wait; sleep infinity"
	stubborn = e.start(stubborn)
	now := int64(0)
	err := e.Client.CoreV1().Pods(e.namespace).Delete(t.Context(), stubborn.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		t.Fatalf("delete pod by force: %v", err)
	}
	next := e.create(e.sleeper("next", mixed, "only"))
	stop := e.countHolders("0000:86:00.0")
	next = e.readyAgain(next.Name)
	if most := stop(); most != 1 {
		t.Errorf("PREP-04: up to %d claims held the device at the same time, want 1", most)
	}
	e.one(next)
}

// countHolders looks at a GPU of the mixed server until stop is called, which
// returns how many claims have held it at the same time.
func (e *env) countHolders(address string) (stop func() int) {
	ctx, cancel := context.WithCancel(e.t.Context())
	result := make(chan int)
	go func() {
		most := 0
		for ctx.Err() == nil {
			out, err := e.shell(ctx, mixed, fmt.Sprintf("find %s/held/%s ! -type d | wc -l", pluginDir, address))
			if holders, convErr := strconv.Atoi(strings.TrimSpace(out)); err == nil && convErr == nil {
				most = max(most, holders)
			}
		}
		result <- most
	}()
	return func() int {
		cancel()
		return <-result
	}
}
