//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// Simulated servers, as the nodes' label cleave.dev/simulated names them.
const (
	dgx   = "dgx-h100" // eight H100
	mixed = "mixed"    // an H100 and an L40S, which cannot be split
)

// How long things may take on a slow machine; what takes longer is a failure.
const (
	podTimeout   = 90 * time.Second
	cleanTimeout = 60 * time.Second
	poll         = 250 * time.Millisecond
)

// env is what one test has of the cluster: a namespace and two node names.
type env struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
	image     string
	// nodes are the names of the nodes by their simulated server.
	nodes map[string]string
	// shells are the servers whose node has been reached before.
	shells map[string]bool
}

// newEnv connects to a cluster with both servers and makes a namespace. When the test
// ends, its pods are deleted, and the test fails if anything of them is left on a node.
func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvOn(t, dgx, mixed)
}

// newEnvOn is newEnv for a cluster with other servers.
func newEnvOn(t *testing.T, servers ...string) *env {
	t.Helper()
	c, err := cluster.Connect(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	e := &env{
		Cluster: c, t: t, image: cmp.Or(os.Getenv("CLEAVE_E2E_IMAGE"), "cleave-base:latest"),
		nodes: map[string]string{}, shells: map[string]bool{},
	}
	for _, server := range servers {
		e.nodes[server] = e.findNode(server)
	}
	ns, err := c.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cleave-e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	e.namespace = ns.Name
	t.Cleanup(e.end)
	e.eventually(30*time.Second, "the namespace has its service account", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(e.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return e
}

func (e *env) findNode(server string) string {
	e.t.Helper()
	list, err := e.Client.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{LabelSelector: "cleave.dev/simulated=" + server})
	if err != nil || len(list.Items) != 1 {
		e.t.Fatalf("want one node with the label cleave.dev/simulated=%s, have %d (%v)", server, len(list.Items), err)
	}
	return list.Items[0].Name
}

// run is t.Run with the environment of the subtest.
func (e *env) run(name string, test func(e *env)) {
	e.t.Run(name, func(t *testing.T) {
		sub := *e
		sub.t = t
		test(&sub)
	})
}

// servers are those of the cluster, in a fixed order.
func (e *env) servers() []string { return slices.Sorted(maps.Keys(e.nodes)) }

// end removes what the test made and checks that the nodes are as before. After a
// failure it first prints what a person would look at.
func (e *env) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if e.t.Failed() {
		e.report(ctx)
	}
	e.deleteAllPods(ctx)
	if left := e.waitClean(ctx); left != "" {
		e.t.Errorf("after all pods of the test are gone, there is left:\n%s", left)
		e.logs(ctx)
	}
	// The namespace goes in its own time.
	if err := e.Client.CoreV1().Namespaces().Delete(ctx, e.namespace, metav1.DeleteOptions{}); err != nil {
		e.t.Errorf("delete namespace %s: %v", e.namespace, err)
	}
}

// report prints every pod's state and events, and the plugins' last words.
func (e *env) report(ctx context.Context) {
	pods, err := e.Client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Logf("list pods: %v", err)
		return
	}
	// A test with very many pods is explained by the first that are not well.
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Compare(fmt.Sprint(cluster.Ready(&a)), fmt.Sprint(cluster.Ready(&b)))
	})
	for _, p := range pods.Items[:min(len(pods.Items), 10)] {
		e.t.Logf("pod %s:\n%s", p.Name, e.Explain(ctx, e.namespace, p.Name))
	}
	e.logs(ctx)
}

func (e *env) logs(ctx context.Context) {
	for _, server := range e.servers() {
		pod, err := e.pluginPod(ctx, server)
		if err != nil {
			e.t.Log(err)
			continue
		}
		out, err := e.Logs(ctx, pod.Namespace, pod.Name, pluginContainer, 40)
		e.t.Logf("log of %s on %s (%v):\n%s", pod.Name, server, err, out)
	}
}
