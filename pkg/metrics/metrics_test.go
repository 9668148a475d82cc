package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cleave-dra/cleave/pkg/metrics"
)

func TestNode(t *testing.T) {
	m := metrics.NewNode("cleave.dev", "v1")
	m.Start(metrics.Prepare)(nil)
	m.Start(metrics.Prepare)(errors.New("no"))
	m.Start(metrics.Unprepare)(nil)
	open := m.Start(metrics.Unprepare)
	m.Hold(map[string]int{"mig": 3, "gpu": 1}, 1)
	m.Hold(map[string]int{"mig": 2}, -1)
	m.PublishError()
	m.GPUs(8)
	const want = `
# HELP cleave_build_info Always 1; the version is a label.
# TYPE cleave_build_info gauge
cleave_build_info{version="v1"} 1
# HELP cleave_gpus GPUs that are published.
# TYPE cleave_gpus gauge
cleave_gpus 8
# HELP cleave_publish_errors_total Times that ResourceSlices could not be built or published.
# TYPE cleave_publish_errors_total counter
cleave_publish_errors_total{driver="cleave.dev"} 1
# HELP nvidia_dra_node_prepare_errors_total Claims that could not be prepared.
# TYPE nvidia_dra_node_prepare_errors_total counter
nvidia_dra_node_prepare_errors_total{driver="cleave.dev"} 1
# HELP nvidia_dra_prepared_devices Devices of prepared claims.
# TYPE nvidia_dra_prepared_devices gauge
nvidia_dra_prepared_devices{device_type="gpu",driver="cleave.dev"} 1
nvidia_dra_prepared_devices{device_type="mig",driver="cleave.dev"} 1
# HELP nvidia_dra_requests_inflight Claims being worked on, those that wait for a lock included.
# TYPE nvidia_dra_requests_inflight gauge
nvidia_dra_requests_inflight{driver="cleave.dev",operation="PrepareResourceClaims"} 0
nvidia_dra_requests_inflight{driver="cleave.dev",operation="UnprepareResourceClaims"} 1
# HELP nvidia_dra_requests_total Claims that the kubelet asked for, failed ones included.
# TYPE nvidia_dra_requests_total counter
nvidia_dra_requests_total{driver="cleave.dev",operation="PrepareResourceClaims"} 2
nvidia_dra_requests_total{driver="cleave.dev",operation="UnprepareResourceClaims"} 1
`
	err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want),
		"cleave_build_info", "cleave_gpus", "cleave_publish_errors_total", "nvidia_dra_node_prepare_errors_total",
		"nvidia_dra_prepared_devices", "nvidia_dra_requests_inflight", "nvidia_dra_requests_total")
	if err != nil {
		t.Error(err)
	}
	open(nil)
}
