//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusOfAClaim covers METR-01: the live UUID of a MIG device, which no
// ResourceSlice has, is in the claim's status and in an Event, so that monitoring can
// tell which pod has it.
func TestStatusOfAClaim(t *testing.T) {
	e := newEnv(t)
	e.template("slice", ask("mig-1g.10gb.cleave.dev"))
	pod := e.start(e.sleeper("seen", mixed, "slice"))
	seen := e.one(pod)
	e.eventually(podTimeout, "the claim's status names the MIG device", func(ctx context.Context) error {
		claim, err := e.Client.ResourceV1().ResourceClaims(e.namespace).Get(ctx, seen.Claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range claim.Status.Devices {
			var data struct {
				UUID    string `json:"uuid"`
				Profile string `json:"profile"`
			}
			if err := json.Unmarshal(d.Data.Raw, &data); err != nil {
				return err
			}
			if d.Device == seen.Device.Name && data.UUID == seen.MIG.UUID && data.Profile == "1g.10gb" && len(d.Conditions) == 1 && d.Conditions[0].Type == "Ready" {
				return nil
			}
		}
		return fmt.Errorf("devices: %+v", claim.Status.Devices)
	})
	e.eventually(podTimeout, "an Event of the claim names the MIG device", func(ctx context.Context) error {
		events, err := e.Client.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + seen.Claim.Name})
		if err != nil {
			return err
		}
		for _, ev := range events.Items {
			if ev.Reason == "Prepared" && strings.Contains(ev.Message, seen.MIG.UUID) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them does", len(events.Items))
	})
	e.stop(pod)
}
