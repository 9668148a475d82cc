//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// Compute modes as nvml.h numbers them (nvmlComputeMode_t).
const (
	defaultMode      = 0
	exclusiveProcess = 3
)

// configured is a claim for a whole GPU with a GPUConfig of the given fields.
func configured(fields string) resourceapi.ResourceClaimSpec {
	spec := ask("gpu.cleave.dev")
	raw := fmt.Sprintf(`{"apiVersion": "cleave.dev/v1alpha1", "kind": "GPUConfig", %s}`, fields)
	spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: cluster.DriverName, Parameters: runtime.RawExtension{Raw: []byte(raw)}},
	}}}
	return spec
}

// TestConfigThatIsWrong: bad input stops the pod, with an Event for its owner that
// names the field.
func TestConfigThatIsWrong(t *testing.T) {
	e := newEnv(t)
	tests := map[string]struct {
		fields string
		want   []string
	}{
		"unknown-field": {`"computeMood": "Default"`, []string{"computeMood"}},
		"bad-value":     {`"computeMode": "Shared"`, []string{"computeMode", "Shared", "ExclusiveProcess"}},
	}
	for name, tc := range tests {
		e.run(name, func(e *env) {
			e.template(name, configured(tc.fields))
			pod := e.create(e.sleeper(name, dgx, name))
			event := e.waitEvent(pod, "FailedPrepareDynamicResources")
			for _, want := range tc.want {
				if !strings.Contains(event, want) {
					e.t.Errorf("the event does not name %q: %s", want, event)
				}
			}
			e.t.Logf("event: %s", event)
			if left, err := e.residue(e.t.Context(), dgx); err != nil || len(left) > 0 {
				e.t.Errorf("half done: %v (%v)", left, err)
			}
			e.stop(pod)
		})
	}
}

// waitEvent waits for an event about a pod and returns its message.
func (e *env) waitEvent(pod *corev1.Pod, reason string) string {
	e.t.Helper()
	var message string
	e.eventually(podTimeout, "pod "+pod.Name+" has an event "+reason, func(ctx context.Context) error {
		events, err := e.Events(ctx, pod.Namespace, pod.Name)
		if err != nil {
			return err
		}
		for _, event := range events {
			if event.Reason == reason {
				message = event.Message
				return nil
			}
		}
		return fmt.Errorf("it has %d others:\n%s", len(events), e.Explain(ctx, pod.Namespace, pod.Name))
	})
	return message
}

// TestComputeMode covers CONF-03: what Prepare changes is changed back.
func TestComputeMode(t *testing.T) {
	e := newEnv(t)
	e.template("exclusive", configured(`"computeMode": "ExclusiveProcess"`))
	pod := e.start(e.sleeper("exclusive", mixed, "exclusive"))
	uuid := e.one(pod).GPU.UUID
	if got := e.gpu(mixed, uuid).ComputeMode; got != exclusiveProcess {
		t.Errorf("compute mode while the pod runs is %d, want %d (exclusive process)", got, exclusiveProcess)
	}
	e.stop(pod)
	e.eventually(30*time.Second, "CONF-03: the compute mode is as before", func(context.Context) error {
		if got := e.gpu(mixed, uuid).ComputeMode; got != defaultMode {
			return fmt.Errorf("it is %d, want %d (default)", got, defaultMode)
		}
		return nil
	})
}
