package allocate

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// allocated gathers what claims hold, by the scheduler's rules
// (pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go): devices
// with admin access are not held, shares of a device count by their size.
func allocated(results iter.Seq[*resourceapi.AllocationResult]) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for result := range results {
		for _, device := range result.Devices.Results {
			if ptr.Deref(device.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
			if device.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, device.ShareID))
			if device.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
			}
		}
	}
	return state
}
