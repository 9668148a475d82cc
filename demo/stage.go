package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// stage is where one scenario plays: its namespace, and its line of progress.
type stage struct {
	*show
	namespace string
	began     time.Time
}

// say prints a line of progress with the seconds since the scenario began.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.out, "  %5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// apply creates what is in a manifest.
func (s *stage) apply(ctx context.Context, file string) error {
	text, err := manifests.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	objects, err := cluster.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if s.image != "" {
		for _, obj := range objects {
			if err := useImage(obj, s.image); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	if err := s.cluster.Create(ctx, s.namespace, objects...); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s.say("applied demo/%s", file)
	return nil
}

// ready waits for a pod and looks into each of its containers.
func (s *stage) ready(ctx context.Context, name string) ([]cluster.Seen, error) {
	pod, err := s.cluster.WaitReady(ctx, s.namespace, name, s.timeout)
	if err != nil {
		return nil, err
	}
	var all []cluster.Seen
	for _, c := range pod.Spec.Containers {
		seen, err := s.cluster.Look(ctx, pod, c.Name)
		if err != nil {
			return nil, err
		}
		for _, d := range seen {
			where := "nvidia-smi -L lists it and nothing else"
			if d.GPU.UUID == "" {
				where = "/dev/infiniband has its nodes and nothing else"
			}
			s.say("%s has %s of %s, and %s", label(pod, c.Name), d.Device.Name, d.Node, where)
			s.rows = append(s.rows, row{pod: label(pod, c.Name), seen: d})
		}
		all = append(all, seen...)
	}
	return all, nil
}

// label names a container as short as possible.
func label(pod *corev1.Pod, container string) string {
	if len(pod.Spec.Containers) == 1 {
		return pod.Name
	}
	return pod.Name + "/" + container
}

// useImage replaces the image of all containers of a Pod or of a pod template.
func useImage(obj *unstructured.Unstructured, image string) error {
	for _, path := range [][]string{{"spec", "containers"}, {"spec", "template", "spec", "containers"}} {
		list, found, err := unstructured.NestedSlice(obj.Object, path...)
		if err != nil {
			return fmt.Errorf("read containers of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		if !found {
			continue
		}
		for _, c := range list {
			if container, ok := c.(map[string]any); ok {
				container["image"] = image
			}
		}
		if err := unstructured.SetNestedSlice(obj.Object, list, path...); err != nil {
			return fmt.Errorf("set image of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}
