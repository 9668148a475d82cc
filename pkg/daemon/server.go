// Package daemon is what every Cleave binary needs around its work, once:
// logger, Kubernetes client, signals, health and metrics endpoints.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// Check answers nil when all is well; its error is shown to whoever asks.
type Check func(ctx context.Context) error

// Endpoints are what a daemon answers over HTTP.
type Endpoints struct {
	// Healthy answers /healthz: an error means that a restart may help.
	Healthy Check
	// Ready answers /readyz: an error means that the work is not done (yet).
	Ready   Check
	Metrics prometheus.Gatherer
}

// checkTimeout bounds one answer; the kubelet's probes wait no longer by default
// than the chart tells them to.
const checkTimeout = 5 * time.Second

// Serve answers until ctx is done and then finishes open requests.
func Serve(ctx context.Context, address string, e Endpoints) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for health checks and metrics on %s: %w", address, err)
	}
	klog.FromContext(ctx).V(2).Info("Serving health checks and metrics", "address", listener.Addr())
	server := &http.Server{Handler: e.handler(), ReadHeaderTimeout: checkTimeout}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health checks and metrics: %w", err)
	}
	return <-stopped
}

func (e Endpoints) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", probe(e.Healthy))
	mux.Handle("GET /readyz", probe(e.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.Metrics, promhttp.HandlerOpts{}))
	return mux
}

func probe(check Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		if err := check(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
}
