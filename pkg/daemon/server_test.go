package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleave-dra/cleave/pkg/daemon"
)

func get(t *testing.T, address, path string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// freeAddress is a loopback address that nobody listens at now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestServe(t *testing.T) {
	address := freeAddress(t)
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer"})
	gauge.Set(42)
	registry.MustRegister(gauge)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- daemon.Serve(ctx, address, daemon.Endpoints{
			Healthy: func(context.Context) error { return nil },
			Ready:   func(context.Context) error { return errors.New("slices are not published yet") },
			Metrics: registry,
		})
	}()
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		_, _, err := get(t, address, "/healthz")
		return err == nil, nil
	})
	if err != nil {
		t.Fatal("the server does not answer")
	}
	tests := map[string]struct {
		code int
		body string
	}{
		"/healthz": {code: 200, body: "ok"},
		"/readyz":  {code: 503, body: "slices are not published yet"},
		"/metrics": {code: 200, body: "answer 42"},
		"/other":   {code: 404},
	}
	for path, tc := range tests {
		t.Run(path, func(t *testing.T) {
			code, body, err := get(t, address, path)
			if err != nil || code != tc.code || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %q %v, want %d with %q", code, body, err, tc.code, tc.body)
			}
		})
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestServeNamesTheAddress(t *testing.T) {
	address := freeAddress(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = daemon.Serve(t.Context(), address, daemon.Endpoints{Metrics: prometheus.NewRegistry()})
	if err == nil || !strings.Contains(fmt.Sprint(err), address) {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}
