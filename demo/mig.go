package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const gib = 1 << 30

func migProfile(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "03-mig-profile.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "mig-profile")
	if err != nil {
		return err
	}
	return want(seen, 1, "profile", "1g.10gb")
}

func migMemory(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "04-mig-memory.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "mig-memory")
	if err != nil {
		return err
	}
	if err := want(seen, 1, "type", "mig"); err != nil {
		return err
	}
	memory := float64(seen[0].Memory()) / gib
	if memory < 15 || memory >= 20 {
		return fmt.Errorf("device %s: want the smallest slice with 15 GiB, which has less than 20, got %.2f GiB", seen[0].Device.Name, memory)
	}
	s.say("a %s has %.2f GiB: enough for 15Gi, too little for 20Gi", seen[0].MIG.Profile, memory)
	return nil
}

// sevenThenOne fills a GPU, sees that a slice of all of it waits, makes room, and
// sees that it gets its turn.
func sevenThenOne(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "05a-seven-slices.yaml"); err != nil {
		return err
	}
	if err := s.sevenShare(ctx); err != nil {
		return err
	}
	if err := s.apply(ctx, "05b-then-all-of-it.yaml"); err != nil {
		return err
	}
	if err := s.waits(ctx, "all-of-it"); err != nil {
		return err
	}
	if err := s.cluster.Client.AppsV1().Deployments(s.namespace).Delete(ctx, "seven", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete deployment seven: %w", err)
	}
	s.say("deleted deployment seven")
	seen, err := s.ready(ctx, "all-of-it")
	if err != nil {
		return err
	}
	return want(seen, 1, "profile", "7g.80gb")
}

// sevenShare checks that the seven pods have seven MIG devices of one GPU.
func (s *stage) sevenShare(ctx context.Context) error {
	pods, err := s.podsOf(ctx, "app=seven", 7)
	if err != nil {
		return err
	}
	gpus, uuids := map[string]bool{}, map[string]bool{}
	for _, pod := range pods {
		seen, err := s.ready(ctx, pod)
		if err != nil {
			return err
		}
		if err := want(seen, 1, "profile", "1g.10gb"); err != nil {
			return err
		}
		gpus[seen[0].GPU.UUID] = true
		uuids[seen[0].MIG.UUID] = true
	}
	if len(gpus) != 1 || len(uuids) != 7 {
		return fmt.Errorf("want 7 MIG devices on 1 GPU, got %d on %d", len(uuids), len(gpus))
	}
	s.say("all seven share one GPU")
	return nil
}

// waits checks that the scheduler finds no device for the pod.
func (s *stage) waits(ctx context.Context, name string) error {
	pod, err := s.cluster.WaitPod(ctx, s.namespace, name, s.timeout, "found to be unschedulable", unschedulable)
	if err != nil {
		return err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			s.say("%s waits: %s", name, c.Message)
		}
	}
	return nil
}

func unschedulable(pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName != "" {
		return false, fmt.Errorf("it was scheduled to %s although the GPU is full", pod.Spec.NodeName)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true, nil
		}
	}
	return false, nil
}

// podsOf waits until a selector has n pods and returns their names.
func (s *stage) podsOf(ctx context.Context, selector string, n int) ([]string, error) {
	var pods []string
	look := func(ctx context.Context) (bool, error) {
		list, err := s.cluster.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, err
		}
		pods = nil
		for _, p := range list.Items {
			pods = append(pods, p.Name)
		}
		return len(pods) == n, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, poll, s.timeout, true, look); err != nil {
		return nil, fmt.Errorf("wait for %d pods with %s in %s, there are %d: %w", n, selector, s.namespace, len(pods), err)
	}
	return pods, nil
}
