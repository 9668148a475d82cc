// Package metrics is what Cleave measures of itself, under the names that
// dashboards for NVIDIA's DRA driver already use.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Operation is a kubelet call.
type Operation string

// The operations that are measured.
const (
	Prepare   Operation = "PrepareResourceClaims"
	Unprepare Operation = "UnprepareResourceClaims"
)

// Node are the node plugin's metrics. No label holds anything that grows without
// bound: no pod, claim or UUID.
type Node struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	prepared *prometheus.GaugeVec
	errors   map[Operation]*prometheus.CounterVec
	publish  *prometheus.CounterVec
	gpus     prometheus.Gauge
	driver   string
}

// NewNode registers the metrics in a registry of their own.
func NewNode(driverName, version string) *Node {
	m := &Node{
		registry: prometheus.NewRegistry(),
		driver:   driverName,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nvidia_dra_requests_total", Help: "Claims that the kubelet asked for, failed ones included.",
		}, []string{"driver", "operation"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nvidia_dra_request_duration_seconds", Help: "Time per claim, waiting for locks and failures included.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 45},
		}, []string{"driver", "operation"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nvidia_dra_requests_inflight", Help: "Claims being worked on, those that wait for a lock included.",
		}, []string{"driver", "operation"}),
		prepared: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nvidia_dra_prepared_devices", Help: "Devices of prepared claims.",
		}, []string{"driver", "device_type"}),
		errors: map[Operation]*prometheus.CounterVec{
			Prepare: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "nvidia_dra_node_prepare_errors_total", Help: "Claims that could not be prepared.",
			}, []string{"driver"}),
			Unprepare: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "nvidia_dra_node_unprepare_errors_total", Help: "Claims that could not be unprepared.",
			}, []string{"driver"}),
		},
		publish: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cleave_publish_errors_total", Help: "Times that ResourceSlices could not be built or published.",
		}, []string{"driver"}),
		gpus: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cleave_gpus", Help: "GPUs that are published."}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cleave_build_info", Help: "Always 1; the version is a label."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.inflight, m.prepared, m.publish, m.gpus, build,
		m.errors[Prepare], m.errors[Unprepare],
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Gatherer is for the /metrics endpoint.
func (m *Node) Gatherer() prometheus.Gatherer { return m.registry }

// Start counts a claim as being worked on; done is called with what came of it.
func (m *Node) Start(op Operation) (done func(error)) {
	begin := time.Now()
	inflight := m.inflight.WithLabelValues(m.driver, string(op))
	inflight.Inc()
	return func(err error) {
		inflight.Dec()
		m.requests.WithLabelValues(m.driver, string(op)).Inc()
		m.duration.WithLabelValues(m.driver, string(op)).Observe(time.Since(begin).Seconds())
		if err != nil {
			m.errors[op].WithLabelValues(m.driver).Inc()
		}
	}
}

// Hold adds n times so many devices, by device type, to those that prepared
// claims hold; n is negative when a claim lets go.
func (m *Node) Hold(byType map[string]int, n int) {
	for deviceType, devices := range byType {
		m.prepared.WithLabelValues(m.driver, deviceType).Add(float64(n * devices))
	}
}

// PublishError counts a failure to build or publish ResourceSlices.
func (m *Node) PublishError() { m.publish.WithLabelValues(m.driver).Inc() }

// GPUs sets how many GPUs are published.
func (m *Node) GPUs(n int) { m.gpus.Set(float64(n)) }
