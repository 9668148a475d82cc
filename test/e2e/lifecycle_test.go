//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodGetsASliceThatDidNotExist follows two pods from before they are made to
// after they are gone.
func TestPodGetsASliceThatDidNotExist(t *testing.T) {
	e := newEnv(t)
	e.template("small", ask("mig-1g.10gb.cleave.dev"))
	e.template("large", ask("mig-3g.40gb.cleave.dev"))
	if left, err := e.residue(t.Context(), mixed); err != nil || len(left) > 0 {
		t.Fatalf("before any pod there is %v (%v)", left, err)
	}
	for _, name := range []string{"small", "large"} {
		pod := e.start(e.sleeper(name, mixed, name))
		// One claim after the other, without a restart between: each has a CDI
		// file of its own that names the live instance.
		e.run("CDI-02/"+name, func(e *env) { e.checkPrepared(pod) })
		e.stop(pod)
		if left := e.waitClean(t.Context()); left != "" {
			t.Errorf("after pod %s is gone there is left:\n%s", name, left)
		}
	}
}

// checkPrepared looks at what a pod's MIG claim has made on the node.
func (e *env) checkPrepared(pod *corev1.Pod) {
	seen := e.one(pod)
	uid := string(seen.Claim.UID)
	state := e.gpu(mixed, seen.GPU.UUID)
	if len(state.Instances) != 1 || state.Instances[0].Profile != seen.MIG.Profile ||
		len(state.Instances[0].Compute) != 1 || state.Instances[0].Compute[0].UUID != seen.MIG.UUID {
		e.t.Fatalf("want one GPU instance %s with the MIG device %s, got %+v", seen.MIG.Profile, seen.MIG.UUID, state.Instances)
	}
	// The device's name ends in the first memory slice.
	if want := fmt.Sprintf("-%d", state.Instances[0].Placement.Start); !strings.HasSuffix(seen.Device.Name, want) {
		e.t.Errorf("device %s was allocated, the instance begins at %d", seen.Device.Name, state.Instances[0].Placement.Start)
	}
	left, err := e.residue(e.t.Context(), mixed)
	if err != nil {
		e.t.Fatal(err)
	}
	for what, path := range map[string]string{
		"CDI file":      cdiDir + "/cleave.dev-claim-" + uid,
		"metadata file": pluginDir + "/dra-device-metadata/" + pod.Namespace + "_" + seen.Claim.Name,
		"metadata CDI":  cdiDir + "/cleave.dev_metadata_" + uid,
		"record":        pluginDir + "/claims/" + uid,
		"index":         pluginDir + "/held/",
	} {
		if !strings.Contains(strings.Join(left, "\n"), path) {
			e.t.Errorf("no %s %s* on the node; there is:\n%s", what, path, strings.Join(left, "\n"))
		}
	}
}
