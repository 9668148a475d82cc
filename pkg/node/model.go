package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// errUndiscovered is what a claim meets before the first discovery.
var errUndiscovered = errors.New("this node's GPUs are not discovered yet")

// model is what the node is known to have.
type model struct {
	mu    sync.Mutex
	node  hardware.Node
	known bool
	// published are the attributes of the devices in the pool, by device name.
	published map[string]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// failure is why the last discovery failed, nil if it did not.
	failure error
}

// get returns the model, or why there is none yet.
func (m *model) get() (hardware.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return hardware.Node{}, errors.Join(errUndiscovered, m.failure)
	}
	return m.node, nil
}

// update takes a discovery in. A GPU that is missing now stays in the model:
// claims may hold it, and what is allocated must not be withdrawn.
func (m *model) update(found hardware.Node) hardware.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, old := range m.node.GPUs {
		if _, ok := found.GPU(old.PCI); !ok {
			found.GPUs = append(found.GPUs, old)
		}
	}
	found.Sort()
	m.node, m.known, m.failure = found, true, nil
	return found
}

// publish notes what the pool says of its devices.
func (m *model) publish(pools map[string]resourceslice.Pool) {
	published := map[string]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for _, pool := range pools {
		for _, slice := range pool.Slices {
			for _, d := range slice.Devices {
				published[d.Name] = d.Attributes
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = published
}

// Attributes that a device has only while it is prepared, in its metadata.
const (
	attributeGPUInstance     resourceapi.QualifiedName = "gpuInstanceID"
	attributeComputeInstance resourceapi.QualifiedName = "computeInstanceID"
)

// attributes are those for a prepared device's metadata: the published ones, and
// of a MIG slice also what is known only now that it exists.
func (m *model) attributes(d plan.Device, made plan.Result) map[string]resourceapi.DeviceAttribute {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]resourceapi.DeviceAttribute{}
	for name, value := range m.published[d.Name] {
		out[string(name)] = value
	}
	if d.MIG != nil {
		out[string(pool.AttributeUUID)] = resourceapi.DeviceAttribute{StringValue: &made.UUID}
		out[string(attributeGPUInstance)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(made.GPUInstance))}
		out[string(attributeComputeInstance)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(made.ComputeInstance))}
	}
	return out
}

// failed notes that a discovery did not work.
func (m *model) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
}

// check is nil if the last discovery worked.
func (m *model) check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return fmt.Errorf("discovery: %w", m.failure)
	}
	if !m.known {
		return errUndiscovered
	}
	return nil
}

// missing are the GPUs of old that found lacks.
func missing(old, found hardware.Node) []hardware.GPU {
	return slices.DeleteFunc(slices.Clone(old.GPUs), func(g hardware.GPU) bool {
		_, ok := found.GPU(g.PCI)
		return ok
	})
}
