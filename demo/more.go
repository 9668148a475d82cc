package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

func computeInstances(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "06-compute-instances.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "three-in-one")
	if err != nil {
		return err
	}
	if err := want(seen, 1, "profile", "3g.40gb"); err != nil {
		return err
	}
	if n := len(seen[0].Parts); n != 3 {
		return fmt.Errorf("want 3 MIG devices of one slice, got %d", n)
	}
	for _, part := range seen[0].Parts {
		if part.Profile != "1c.3g.40gb" {
			return fmt.Errorf("want MIG devices 1c.3g.40gb, got %s", part.Profile)
		}
	}
	s.say("one slice, three MIG devices")
	return nil
}

// prioritizedList sees each alternative taken once, and the last pod wait.
func prioritizedList(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "07a-prioritized-list.yaml"); err != nil {
		return err
	}
	if _, err := s.ready(ctx, "small"); err != nil {
		return err
	}
	for _, step := range []struct{ file, pod, attribute, value string }{
		{"07b-first.yaml", "first", "profile", "3g.40gb"},
		{"07c-second.yaml", "second", "productName", "NVIDIA L40S"},
	} {
		if err := s.apply(ctx, step.file); err != nil {
			return err
		}
		seen, err := s.ready(ctx, step.pod)
		if err != nil {
			return err
		}
		if err := want(seen, 1, step.attribute, step.value); err != nil {
			return err
		}
	}
	if err := s.apply(ctx, "07d-third.yaml"); err != nil {
		return err
	}
	return s.waits(ctx, "third")
}

func extendedResources(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "08-extended-resources.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "old-way")
	if err != nil {
		return err
	}
	if len(seen) != 2 {
		return fmt.Errorf("want 2 devices in the pod, got %d", len(seen))
	}
	if err := want(seen[:1], 1, "type", "gpu"); err != nil {
		return err
	}
	return want(seen[1:], 1, "profile", "1g.10gb")
}

// partitionedBeforehand makes a slice behind the driver's back, sees a pod get that
// very one, and sees it outlive the pod.
func partitionedBeforehand(ctx context.Context, s *stage) (err error) {
	sim, err := s.simulator(ctx, "mixed")
	if err != nil {
		return err
	}
	if _, err := sim.ctl(ctx, "mig", "--gpu=0", "--enabled=true"); err != nil {
		return err
	}
	if _, err := sim.ctl(ctx, "create-instance", "--gpu=0", "--profile=1g.10gb", "--start=6"); err != nil {
		return err
	}
	before, err := sim.made(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_, destroyErr := sim.ctl(context.WithoutCancel(ctx), "destroy-instance", "--gpu=0", fmt.Sprintf("--id=%d", before.ID))
		err = errors.Join(err, destroyErr)
	}()
	s.say("an administrator made %s", before.Compute[0].UUID)
	if err := s.apply(ctx, "09-partitioned-beforehand.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "beforehand")
	if err != nil {
		return err
	}
	if err := want(seen, 1, "profile", "1g.10gb"); err != nil {
		return err
	}
	if got := seen[0].MIG.UUID; got != before.Compute[0].UUID {
		return fmt.Errorf("want the slice that was there, %s, got %s", before.Compute[0].UUID, got)
	}
	pods := s.cluster.Client.CoreV1().Pods(s.namespace)
	pod, err := pods.Get(ctx, "beforehand", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get pod beforehand: %w", err)
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	if err := s.cluster.WaitGone(ctx, s.namespace, pod.Name, pod.UID, s.timeout); err != nil {
		return err
	}
	after, err := sim.made(ctx)
	if err != nil {
		return err
	}
	if after.Compute[0].UUID != before.Compute[0].UUID {
		return fmt.Errorf("the slice that was there is another one now: %s", after.Compute[0].UUID)
	}
	s.say("it outlived the pod")
	return nil
}

// simulator is the pod that has the simulated hardware of a node.
type simulator struct {
	cluster        *cluster.Cluster
	namespace, pod string
}

func (s *stage) simulator(ctx context.Context, server string) (simulator, error) {
	pods, err := s.cluster.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=simhw-" + server})
	if err != nil {
		return simulator{}, fmt.Errorf("find the simulator of %s: %w", server, err)
	}
	if len(pods.Items) == 0 {
		return simulator{}, fmt.Errorf("find the simulator of %s: no pod has the label app.kubernetes.io/component=simhw-%s", server, server)
	}
	return simulator{cluster: s.cluster, namespace: pods.Items[0].Namespace, pod: pods.Items[0].Name}, nil
}

// root is where the chart's default value puts the simulated driver.
const root = "/var/lib/cleave-simhw/root"

func (s simulator) ctl(ctx context.Context, command string, args ...string) (string, error) {
	return s.cluster.Exec(ctx, s.namespace, s.pod, "", append([]string{"cleave-simhw", "ctl", command, "--root=" + root}, args...)...)
}

// instance is a GPU instance as the simulator shows it.
type instance struct {
	ID      int `json:"id"`
	Compute []struct {
		UUID string `json:"uuid"`
	} `json:"compute"`
}

// made is the only instance on the first GPU.
func (s simulator) made(ctx context.Context) (instance, error) {
	out, err := s.ctl(ctx, "list")
	if err != nil {
		return instance{}, err
	}
	var state struct {
		GPUs []struct {
			Instances []instance `json:"instances"`
		} `json:"gpus"`
	}
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		return instance{}, fmt.Errorf("read the simulator's state: %w", err)
	}
	if len(state.GPUs) == 0 || len(state.GPUs[0].Instances) != 1 || len(state.GPUs[0].Instances[0].Compute) != 1 {
		return instance{}, fmt.Errorf("want one MIG instance on the first GPU, got %s", out)
	}
	return state.GPUs[0].Instances[0], nil
}
