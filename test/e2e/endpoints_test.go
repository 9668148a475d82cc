//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestEndpoints asks for health and metrics the way Kubernetes and Prometheus do.
func TestEndpoints(t *testing.T) {
	e := newEnv(t)
	tests := map[string][]string{
		"healthz": nil,
		"readyz":  nil,
		"metrics": {"nvidia_dra_requests_total", "nvidia_dra_request_duration_seconds_bucket", "nvidia_dra_prepared_devices", "cleave_gpus 8", "cleave_build_info"},
	}
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	e.start(e.sleeper("counted", dgx, "mig")) // so that there is something to count
	for path, want := range tests {
		e.run(path, func(e *env) {
			out, err := e.get(e.t.Context(), dgx, path)
			if err != nil {
				e.t.Fatal(err)
			}
			for _, text := range want {
				if !strings.Contains(out, text) {
					e.t.Errorf("/%s has no %s:\n%s", path, text, out)
				}
			}
		})
	}
}

// get reads from the HTTP endpoint of the plugin on a node, through the API server.
func (e *env) get(ctx context.Context, server, path string) (string, error) {
	pod, err := e.pluginPod(ctx, server)
	if err != nil {
		return "", err
	}
	out, err := e.Client.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", path, nil).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("get /%s of %s: %w: %s", path, pod.Name, err, out)
	}
	return string(out), nil
}

// waitMetrics waits until the plugin on the DGX reports a line.
func (e *env) waitMetrics(line string) {
	e.t.Helper()
	e.eventually(podTimeout, "the metrics are right", func(ctx context.Context) error {
		out, err := e.get(ctx, dgx, "metrics")
		if err == nil && !strings.Contains(out, "\n"+line+"\n") {
			err = fmt.Errorf("want %q in:\n%s", line, out)
		}
		return err
	})
}
