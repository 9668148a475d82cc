//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// shellNamespace has the pods through which tests reach the nodes. They serve all
// tests of a run and are removed after it.
const shellNamespace = "cleave-e2e-nodes"

func TestMain(m *testing.M) {
	code := m.Run()
	if err := removeShells(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func removeShells() error {
	c, err := cluster.Connect(os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	return c.DeleteNamespace(context.Background(), shellNamespace, time.Minute)
}

// shell runs a script on a node, as root and in the node's own namespaces.
func (e *env) shell(ctx context.Context, server, script string) (string, error) {
	pod := "shell-" + server
	if !e.shells[server] {
		if err := e.makeShell(ctx, server, pod); err != nil {
			return "", err
		}
		e.shells[server] = true
	}
	return e.Exec(ctx, shellNamespace, pod, mainContainer,
		"nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--pid", "--", "bash", "-ec", script)
}

// on is shell for the test's own steps.
func (e *env) on(server, script string) string {
	e.t.Helper()
	out, err := e.shell(e.t.Context(), server, script)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// makeShell starts the pod through which shell reaches the node, unless it runs.
func (e *env) makeShell(ctx context.Context, server, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shellNamespace}}
	if _, err := e.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", shellNamespace, err)
	}
	yes, none := true, int64(0)
	container := e.container(mainContainer, sleep)
	container.SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: e.nodes[server], HostPID: true, TerminationGracePeriodSeconds: &none,
			Containers: []corev1.Container{container},
		},
	}
	// The namespace's service account may take a moment.
	err := try(ctx, podTimeout, func(ctx context.Context) error {
		_, err := e.Client.CoreV1().Pods(shellNamespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create the pod that reaches node %s: %w", e.nodes[server], err)
	}
	_, err = e.WaitReady(ctx, shellNamespace, name, podTimeout)
	return err
}
