package promise

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const (
	driverName = "cleave.dev"
	nodeName   = "worker-1"
	// pinKey is a taint on every device with the device's name as value, so that
	// a claim can ask for exactly one: CEL has no device names.
	pinKey = "promise.cleave.dev/device"
)

var node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}

// classes has one that lets everything pass; claims select by themselves.
var classes = []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "any"}}}

func pins(devices []string) map[string][]resourceapi.DeviceTaint {
	out := map[string][]resourceapi.DeviceTaint{}
	for _, name := range devices {
		out[name] = []resourceapi.DeviceTaint{{Key: pinKey, Value: name, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return out
}

// claimDevice asks for exactly this device.
func claimDevice(name string) *resourceapi.ResourceClaim {
	return claim("", 1, resourceapi.DeviceToleration{Key: pinKey, Operator: resourceapi.DeviceTolerationOpEqual, Value: name})
}

// claimKind asks for count devices that the expression selects.
func claimKind(expression string, count int) *resourceapi.ResourceClaim {
	return claim(expression, count, resourceapi.DeviceToleration{Key: pinKey, Operator: resourceapi.DeviceTolerationOpExists})
}

func claim(expression string, count int, toleration resourceapi.DeviceToleration) *resourceapi.ResourceClaim {
	request := &resourceapi.ExactDeviceRequest{
		DeviceClassName: classes[0].Name,
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           int64(count),
		Tolerations:     []resourceapi.DeviceToleration{toleration},
	}
	if expression != "" {
		request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: request}}}},
	}
}

// kind is something that users ask for, as they write it and as a predicate.
type kind struct {
	expression string
	selects    func(hardware.Device) bool
}

// kinds are whole GPUs, each profile of the node, and sizes of memory.
func kinds(n hardware.Node) []kind {
	out := []kind{{
		expression: fmt.Sprintf("device.attributes[%q].type == 'gpu'", driverName),
		selects:    func(d hardware.Device) bool { return d.Partition == nil && d.NIC == nil },
	}}
	seen := map[string]bool{}
	for _, g := range n.GPUs {
		if g.MIG == nil {
			continue
		}
		for _, p := range g.MIG.Profiles {
			if seen[p.Name] {
				continue
			}
			seen[p.Name] = true
			out = append(out, kind{
				expression: fmt.Sprintf("device.attributes[%[1]q].type == 'mig' && device.attributes[%[1]q].profile == %[2]q", driverName, p.Name),
				selects:    func(d hardware.Device) bool { return d.Partition != nil && d.Partition.Profile.Name == p.Name },
			}, kind{
				expression: fmt.Sprintf("device.attributes[%[1]q].type == 'mig' && device.capacity[%[1]q].memory.compareTo(quantity('%[2]dMi')) >= 0", driverName, p.MemoryMiB),
				selects: func(d hardware.Device) bool {
					return d.Partition != nil && d.Partition.Profile.MemoryMiB >= p.MemoryMiB
				},
			})
		}
	}
	return out
}

func (k kind) String() string { return k.expression }

// GoString is for rapid, which reports what it has drawn as Go.
func (k kind) GoString() string { return k.expression }

// of filters the devices that the kind selects.
func (k kind) of(n hardware.Node, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		d, err := n.Device(name)
		if err != nil {
			return nil, err
		}
		if k.selects(d) {
			out = append(out, name)
		}
	}
	return out, nil
}
