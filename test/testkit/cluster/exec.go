package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a container of a pod and returns its standard output;
// an error has what it wrote to standard error. The container may be empty in a
// pod with one.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command ...string) (string, error) {
	req := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, req.URL().String())
	if err != nil {
		return "", fmt.Errorf("run %q in %s/%s: %w", command, namespace, pod, err)
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return stdout.String(), fmt.Errorf("run %q in %s/%s: %w: %s", command, namespace, pod, err,
			strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}

// Logs are the last lines that a container wrote.
func (c *Cluster) Logs(ctx context.Context, namespace, pod, container string, lines int64) (string, error) {
	opts := &corev1.PodLogOptions{Container: container, TailLines: &lines}
	out, err := c.Client.CoreV1().Pods(namespace).GetLogs(pod, opts).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read logs of %s/%s: %w", namespace, pod, err)
	}
	return string(out), nil
}
