package allocate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Published turns what a driver wants to publish for a node into ResourceSlices,
// as the publishing helper would on an empty cluster. Names start with the slice's
// index, since the scheduler goes through a pool by name; where the API server
// would append something random they end with the driver and the node. All
// slices of a pool have its generation, 1 if it is not set.
func Published(driver, node string, resources resourceslice.DriverResources) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	resources = *resources.DeepCopy()
	for _, name := range slices.Sorted(maps.Keys(resources.Pools)) {
		pool := resources.Pools[name]
		for i, slice := range pool.Slices {
			out = append(out, &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%s", index(i, len(pool.Slices)), driver, node)},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: driver,
					Pool: resourceapi.ResourcePool{
						Name:               name,
						Generation:         max(pool.Generation, 1),
						ResourceSliceCount: int64(len(pool.Slices)),
					},
					NodeName:               &node,
					Devices:                slice.Devices,
					SharedCounters:         slice.SharedCounters,
					PerDeviceNodeSelection: slice.PerDeviceNodeSelection,
					PartitionTypeAttribute: slice.PartitionTypeAttribute,
					SkipNodeOperations:     slice.SkipNodeOperations,
				},
			})
		}
	}
	return out
}

// index is i in hexadecimal with the same number of digits for all n slices, at
// least five: the helper's own form.
func index(i, n int) string {
	return fmt.Sprintf("%0*x", max(5, len(strconv.FormatInt(int64(n-1), 16))), i)
}

// tainted returns the slices with the rules' taints added, as the scheduler sees
// them. A rule without a selector selects nothing.
func tainted(in []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) []*resourceapi.ResourceSlice {
	out := slices.Clone(in)
	for i, slice := range out {
		for _, rule := range rules {
			for j := range slice.Spec.Devices {
				if !selects(rule.Spec.DeviceSelector, slice.Spec, slice.Spec.Devices[j].Name) {
					continue
				}
				if out[i] == in[i] {
					out[i] = slice.DeepCopy()
				}
				d := &out[i].Spec.Devices[j]
				d.Taints = append(d.Taints, rule.Spec.Taint)
			}
		}
	}
	return out
}

func selects(s *resourceapi.DeviceTaintSelector, spec resourceapi.ResourceSliceSpec, device string) bool {
	return s != nil &&
		(s.Driver == nil || *s.Driver == spec.Driver) &&
		(s.Pool == nil || *s.Pool == spec.Pool.Name) &&
		(s.Device == nil || *s.Device == device)
}
