//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// churnPods is how many pods with MIG slices the churn makes; `make soak` makes more.
var churnPods = flag.Int("churn-pods", 200, "how many pods TestManyPodsLeaveNothing makes")

// churnAlive is how many of them there are at a time.
const churnAlive = 40

// TestManyPodsLeaveNothing covers MIGD-06: many MIG pods, made and deleted in
// random order on both nodes, some deleted before they run and every sixth ending
// in failure by itself, leave nothing. CLEAVE_E2E_SEED repeats a run.
func TestManyPodsLeaveNothing(t *testing.T) {
	e := newEnv(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CLEAVE_E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("CLEAVE_E2E_SEED: %v", err)
		}
	}
	t.Logf("CLEAVE_E2E_SEED=%d", seed)
	before := e.pool()
	c := &churn{env: e, rand: rand.New(rand.NewPCG(seed, 0))}
	for _, profile := range []string{"1g.10gb", "1g.10gb.me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"} {
		e.template(profile, ask("mig-"+profile+".cleave.dev"))
	}
	for c.made < *churnPods {
		if len(c.alive) < churnAlive && c.rand.IntN(3) > 0 {
			c.add()
		} else {
			c.drop()
		}
	}
	t.Logf("made %d pods; %d of them were looked into while they ran", c.made, c.looked)
	if c.looked < *churnPods/8 {
		t.Errorf("only %d pods were seen running: too few to mean anything", c.looked)
	}
	e.deleteAllPods(t.Context())
	if left := e.waitClean(t.Context()); left != "" {
		t.Errorf("MIGD-06: after %d pods (seed %d) there is left:\n%s", c.made, seed, left)
	}
	if diff := cmp.Diff(before, e.pool()); diff != "" {
		t.Errorf("the published devices have changed (-before +after):\n%s", diff)
	}
}

type churn struct {
	*env
	rand         *rand.Rand
	alive        []string
	made, looked int
}

// add makes a pod with a random profile, small ones more often than large ones.
func (c *churn) add() {
	c.t.Helper()
	profiles := []string{"1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb.me", "1g.20gb", "2g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}
	server := dgx
	if c.rand.IntN(4) == 0 {
		server = mixed
	}
	pod := c.sleeper(fmt.Sprintf("churn-%04d", c.made), server, profiles[c.rand.IntN(len(profiles))])
	if c.made%6 == 5 {
		pod.Spec.Containers[0].Command[2] = "exit 1"
		pod.Labels = map[string]string{"fails": "by-design"}
	}
	c.create(pod)
	c.alive = append(c.alive, pod.Name)
	c.made++
}

// drop deletes a random pod: every third time one that runs, after a look into it, else
// any, which may still wait, be about to start, or have failed.
func (c *churn) drop() {
	c.t.Helper()
	var name string
	if c.rand.IntN(3) == 0 {
		name = c.oneThatRuns()
	}
	if name == "" && len(c.alive) > 0 {
		name = c.alive[c.rand.IntN(len(c.alive))]
	}
	if name == "" {
		return
	}
	c.alive = slices.DeleteFunc(c.alive, func(n string) bool { return n == name })
	err := c.Client.CoreV1().Pods(c.namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatalf("delete pod %s: %v", name, err)
	}
}

// oneThatRuns looks into a random pod that runs and returns its name, or nothing if
// none comes to run soon.
func (c *churn) oneThatRuns() string {
	c.t.Helper()
	var running []corev1.Pod
	err := try(c.t.Context(), 10*time.Second, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: "!fails"})
		if err != nil {
			return err
		}
		running = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !cluster.Ready(&p) || p.DeletionTimestamp != nil })
		if len(running) == 0 {
			return errors.New("no pod runs")
		}
		return nil
	})
	if err != nil {
		return ""
	}
	pod := &running[c.rand.IntN(len(running))]
	c.one(pod)
	c.looked++
	return pod.Name
}

// pool is all that is published, as text, by device.
func (e *env) pool() map[cluster.DeviceKey]string {
	e.t.Helper()
	var out map[cluster.DeviceKey]string
	e.eventually(podTimeout, "the published devices can be read", func(ctx context.Context) error {
		published, err := e.Published(ctx)
		if err != nil {
			return err
		}
		out = map[cluster.DeviceKey]string{}
		for key, d := range published {
			text, err := json.Marshal(d)
			if err != nil {
				return err
			}
			out[key] = string(text)
		}
		return nil
	})
	return out
}
