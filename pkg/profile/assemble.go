package profile

import (
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/pkg/mig"
)

// assemble writes the claim down.
func (r *renderer) assemble(blocks []block, constraints []resourceapi.DeviceConstraint) Claim {
	var devices resourceapi.DeviceClaim
	for _, b := range blocks {
		for _, a := range b.asks {
			devices.Requests = append(devices.Requests, a.request())
		}
		devices.Constraints = append(devices.Constraints, b.constraints...)
		devices.Config = append(devices.Config, r.config(b)...)
	}
	devices.Constraints = append(devices.Constraints, constraints...)
	for _, class := range r.missing(blocks) {
		r.note("there is no DeviceClass %s now, and the scheduler waits for it", class)
	}
	return Claim{Spec: resourceapi.ResourceClaimSpec{Devices: devices}, Notes: r.notes}
}

// missing are the DeviceClasses that are named and that the cluster does not have.
func (r *renderer) missing(blocks []block) []string {
	var out []string
	for _, b := range blocks {
		for _, a := range b.asks {
			for _, o := range a.options {
				if len(r.inventory.Classes) > 0 && !slices.Contains(r.inventory.Classes, o.class) {
					out = append(out, o.class)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a ask) request() resourceapi.DeviceRequest {
	if len(a.options) == 1 {
		o := a.options[0]
		return resourceapi.DeviceRequest{Name: a.name, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: o.class, Selectors: o.selectors(), Capacity: o.capacity(),
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(o.count),
		}}
	}
	out := resourceapi.DeviceRequest{Name: a.name}
	for i, o := range a.options {
		out.FirstAvailable = append(out.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: o.name(i), DeviceClassName: o.class, Selectors: o.selectors(), Capacity: o.capacity(),
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(o.count),
		})
	}
	return out
}

// name is that of a subrequest: its place, and what it is.
func (o option) name(i int) string {
	if o.kind == kindMIG {
		return fmt.Sprintf("%d-mig-%s", i, mig.LabelName(o.profile))
	}
	return fmt.Sprintf("%d-%s", i, o.kind)
}

func (o option) selectors() []resourceapi.DeviceSelector {
	if o.selector == "" {
		return nil
	}
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: o.selector}}}
}

func (o option) capacity() *resourceapi.CapacityRequirements {
	if !o.share {
		return nil
	}
	return &resourceapi.CapacityRequirements{
		Requests: map[resourceapi.QualifiedName]resource.Quantity{capacityBandwidth: *o.nic.Bandwidth},
	}
}

// config gives each configuration to the requests that it is for: one that names a
// request in vain would be refused on the node.
func (r *renderer) config(b block) []resourceapi.DeviceClaimConfiguration {
	var out []resourceapi.DeviceClaimConfiguration
	for i, c := range b.group.Config {
		at := field.NewPath("spec", "groups").Key(b.group.Name).Child("config").Index(i)
		var meta metav1.TypeMeta
		if err := json.Unmarshal(c.Raw, &meta); err != nil {
			r.refusals.add(ReasonDoesNotApply, at, "read its kind: %v", err)
			continue
		}
		names := b.configuring(meta.Kind)
		if len(names) == 0 {
			r.refusals.add(ReasonDoesNotApply, at, "%s is not for what the group asks for", meta.Kind)
			continue
		}
		out = append(out, resourceapi.DeviceClaimConfiguration{
			Requests: names,
			DeviceConfiguration: resourceapi.DeviceConfiguration{
				Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: r.driver, Parameters: *c.DeepCopy()},
			},
		})
	}
	return out
}

// checkLimits refuses what the API server would not accept, and a claim of which some
// alternative could never be allocated.
func (r *renderer) checkLimits(devices resourceapi.DeviceClaim, blocks []block, at *field.Path) {
	r.atMost(at.Child("groups"), "requests", len(devices.Requests), resourceapi.DeviceRequestsMaxSize)
	r.atMost(at.Child("constraints"), "constraints", len(devices.Constraints), resourceapi.DeviceConstraintsMaxSize)
	r.atMost(at.Child("groups"), "configurations", len(devices.Config), resourceapi.DeviceConfigMaxSize)
	total := 0
	seen := map[string]bool{}
	for _, b := range blocks {
		at := at.Child("groups").Key(b.group.Name)
		for _, a := range b.asks {
			if seen[a.name] {
				r.refusals.add(ReasonNameConflict, at.Child("name"), "another group's request has the name %s too", a.name)
			}
			seen[a.name] = true
			r.atMost(at, "alternatives", len(a.options), resourceapi.FirstAvailableDeviceRequestMaxSize)
			most := 0
			for _, o := range a.options {
				most = max(most, o.count)
			}
			total += most
		}
	}
	r.atMost(at.Child("groups"), "devices", total, resourceapi.AllocationResultsMaxSize)
	for _, c := range devices.Config {
		r.atMost(at.Child("groups"), "bytes in a configuration", len(c.Opaque.Parameters.Raw), resourceapi.OpaqueParametersMaxLength)
	}
}

func (r *renderer) atMost(at *field.Path, what string, n, limit int) {
	if n > limit {
		r.refusals.add(ReasonTooMany, at, "they make %d %s, and a claim can have %d", n, what, limit)
	}
}
