//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// The churn makes churnPods pods with MIG slices, at most churnAlive at a time.
const (
	churnPods  = 60
	churnAlive = 24
)

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
	for c.made < churnPods {
		if len(c.alive) < churnAlive && c.rand.IntN(3) > 0 {
			c.add()
		} else {
			c.drop()
		}
	}
	t.Logf("made %d pods; %d of them were looked into while they ran", c.made, c.looked)
	if c.looked == 0 {
		t.Error("no pod was seen running")
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
	pod := c.sleeper(fmt.Sprintf("churn-%02d", c.made), server, profiles[c.rand.IntN(len(profiles))])
	if c.made%6 == 5 {
		pod.Spec.Containers[0].Command[2] = "exit 1"
	}
	c.create(pod)
	c.alive = append(c.alive, pod.Name)
	c.made++
}

// drop deletes a random pod, every second time after it runs, if it does.
func (c *churn) drop() {
	c.t.Helper()
	if len(c.alive) == 0 {
		return
	}
	i := c.rand.IntN(len(c.alive))
	name := c.alive[i]
	c.alive = append(c.alive[:i], c.alive[i+1:]...)
	if c.rand.IntN(2) == 0 {
		// One that waits for room, or fails by design, is deleted as it is.
		if pod, err := c.WaitReady(c.t.Context(), c.namespace, name, 5*time.Second); err == nil {
			c.one(pod)
			c.looked++
		}
	}
	err := c.Client.CoreV1().Pods(c.namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatalf("delete pod %s: %v", name, err)
	}
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
