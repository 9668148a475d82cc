package admission

import (
	"fmt"
	stdslices "slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/pkg/params"
)

// The scheduler's allocator tries every combination before it knows that a claim does
// not fit a node, so the shape of a claim decides whether that takes milliseconds or
// more than its limit of 10 s. What was measured with it (Kubernetes 1.37, one node with
// eight H100, one device less free than asked for):
//
//   - 6, 7, 8, 9 equal requests for a slice: 30 ms, 97 ms, 0.6 s, 4.6 s; one request for
//     so many: 4 ms;
//   - one request for 12, 14, 16, 18, 20 slices: 24 ms, 85 ms, 0.4 s, 1.4 s, 5.6 s;
//   - 4, 5, 6, 8 GPUs, each with a NIC under its switch by a constraint: 35 ms, 0.1 s,
//     0.8 s, more than 10 s;
//   - three slices and then a whole GPU: 1.6 s as two requests, more than 10 s as four;
//     the GPU first: 2 ms.
const (
	maxEqualRequests = 6
	maxSlices        = 14
	maxConstraints   = 4
)

// shape warns of claims that the scheduler may search long for.
func (d *Decision) shape(all []request, constraints []resourceapi.DeviceConstraint, devices *field.Path) {
	if !stdslices.ContainsFunc(all, func(r request) bool { return r.ours }) {
		return
	}
	d.tooMany(all)
	d.equalRequests(all, constraints, devices)
	d.constraints(all, constraints, devices)
	d.smallFirst(all)
}

// tooMany warns of many slices in one request.
func (d *Decision) tooMany(all []request) {
	for _, r := range all {
		if r.ours && r.known && !r.all && r.count > maxSlices && stdslices.Contains(r.types, params.MIGSlice) {
			d.warn(r.path.Child("count"), "where %d slices just do not fit, the scheduler may search for seconds on each node: ask for at most 12 in one claim", r.count)
		}
	}
}

// equalRequests warns of many requests for the same. Those that different constraints
// tie to others are not the same.
func (d *Decision) equalRequests(all []request, constraints []resourceapi.DeviceConstraint, devices *field.Path) {
	groups := map[string][]string{}
	for _, r := range all {
		if !r.ours || r.equal == "" {
			continue
		}
		key := r.equal
		for i, c := range constraints {
			if len(c.Requests) > 0 && stdslices.Contains(c.Requests, r.name) {
				key += fmt.Sprintf(" %d", i)
			}
		}
		groups[key] = append(groups[key], r.name)
		if len(groups[key]) == maxEqualRequests+1 {
			d.warn(devices.Child("requests"), "%s and more ask for the same: where they just do not fit, the scheduler may search for seconds on each node; one request with a count takes milliseconds",
				strings.Join(groups[key][:3], ", "))
		}
	}
}

// constraints warns of many constraints that tie devices to each other.
func (d *Decision) constraints(all []request, constraints []resourceapi.DeviceConstraint, devices *field.Path) {
	ties := 0
	for _, c := range constraints {
		tied := stdslices.ContainsFunc(all, func(r request) bool {
			return r.ours && (len(c.Requests) == 0 || stdslices.Contains(c.Requests, r.name) || stdslices.Contains(c.Requests, r.parent))
		})
		if c.MatchAttribute != nil && tied {
			ties++
		}
	}
	if ties > maxConstraints {
		d.warn(devices.Child("constraints"), "with %d sets of devices that belong together, the scheduler may search for seconds on each node where they just do not fit: have at most %d, or ask for pairs (type gpu-nic) or whole nodes by a count",
			ties, maxConstraints)
	}
}

// smallFirst warns of slices that are asked for before whole GPUs. Alternatives are left
// out: which of them counts is not known.
func (d *Decision) smallFirst(all []request) {
	slices := int64(0)
	for _, r := range all {
		if !r.ours || !r.known || r.parent != "" {
			continue
		}
		whole := stdslices.Contains(r.types, params.WholeGPU) || stdslices.Contains(r.types, params.Pair)
		slice := stdslices.Contains(r.types, params.MIGSlice)
		switch {
		case slice && !whole:
			slices += r.count
		case whole && !slice && slices > 1:
			d.warn(r.path, "ask for whole GPUs before slices: where both do not fit, the scheduler may search for more than 10 s on each node in this order, and for milliseconds in the other")
			return
		}
	}
}
