//go:build e2e

package e2e

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// admin turns a claim into one with admin access, which shares the device with
// whoever has it.
func admin(spec resourceapi.ResourceClaimSpec) resourceapi.ResourceClaimSpec {
	yes := true
	spec.Devices.Requests[0].Exactly.AdminAccess = &yes
	return spec
}

// TestAdminAccess covers WEBH-05: a monitoring claim sees the GPU that another
// claim holds, and changes nothing of it, neither when it comes nor when it goes.
func TestAdminAccess(t *testing.T) {
	e := newEnv(t)
	label := []byte(`{"metadata": {"labels": {"` + resourceapi.DRAAdminNamespaceLabelKey + `": "true"}}}`)
	if _, err := e.Client.CoreV1().Namespaces().Patch(t.Context(), e.namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatalf("label namespace: %v", err)
	}
	// The L40S has no counters, which even admin access would need free
	// (kubernetes#140729).
	owner := configured(`"computeMode": "ExclusiveProcess"`)
	owner.Devices.Requests[0].Exactly.Selectors = ask("", product(l40s)).Devices.Requests[0].Exactly.Selectors
	e.template("owner", owner)
	e.template("monitor", admin(ask("gpu.cleave.dev", product(l40s))))
	e.template("meddler", admin(owner))
	holder := e.start(e.sleeper("owner", mixed, "owner"))
	uuid := e.one(holder).GPU.UUID

	monitor := e.start(e.sleeper("monitor", mixed, "monitor"))
	if got := e.one(monitor).GPU.UUID; got != uuid {
		t.Errorf("the monitor sees %s, want the owner's %s", got, uuid)
	}
	meddler := e.create(e.sleeper("meddler", mixed, "meddler"))
	message := e.waitEvent(meddler, "FailedPrepareDynamicResources")
	if !strings.Contains(strings.ToLower(message), "admin access") {
		t.Errorf("the event does not say that admin access and a configuration exclude each other: %s", message)
	}
	t.Logf("WEBH-05: %s", message)
	e.stop(meddler)
	e.stop(monitor)
	if got := e.gpu(mixed, uuid).ComputeMode; got != exclusiveProcess {
		t.Errorf("WEBH-05: after the monitor is gone the owner's compute mode is %d, want %d", got, exclusiveProcess)
	}
	e.one(holder)
}
