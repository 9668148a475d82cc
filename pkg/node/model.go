package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	// missing has the GPUs and NICs of node that the last discovery did not find, and since when.
	missing map[hardware.PCIAddress]time.Time
	// foreign are the MIG instances that no claim made, as the publisher, who alone
	// uses it, saw them last.
	foreign map[hardware.PCIAddress][]hardware.Instance
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

// TaintGPUMissing is on everything that a GPU offers which is not there any more,
// or is not the same. Its value says what happened.
const TaintGPUMissing = "cleave.dev/gpu-missing"

// TaintNICMissing is the same for NICs, and is also on one in use that the configuration
// leaves out.
const TaintNICMissing = "cleave.dev/nic-missing"

// withdrawAfter is how long a device that is gone stays published, tainted: claims may
// have been allocated just before, and what is allocated must not be withdrawn.
const withdrawAfter = 10 * time.Minute

// update takes a discovery in, and returns what is to be published with the GPUs
// that are to be tainted and why. What claims hold is kept as it was published: the
// scheduler counts what is allocated by the slices as they are now, so a counter
// that changed would be given away twice.
func (m *model) update(found hardware.Node, held func(hardware.PCIAddress) bool, now time.Time) (hardware.Node, map[hardware.PCIAddress]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := map[hardware.PCIAddress]string{}
	since := map[hardware.PCIAddress]time.Time{}
	// stays tells whether a device that is not there goes on being published.
	stays := func(addr hardware.PCIAddress) bool {
		first, ok := m.missing[addr]
		if !ok {
			first = now
		}
		if now.Sub(first) >= withdrawAfter && !held(addr) {
			return false
		}
		since[addr], missing[addr] = first, "gone"
		return true
	}
	for _, old := range m.node.NICs {
		i := slices.IndexFunc(found.NICs, func(n hardware.NIC) bool { return n.PCI == old.PCI })
		switch {
		case i < 0 && stays(old.PCI):
			found.NICs = append(found.NICs, old)
		case i >= 0 && held(old.PCI):
			found.NICs[i] = keptNIC(old, found.NICs[i])
		}
	}
	for _, old := range m.node.GPUs {
		i := slices.IndexFunc(found.GPUs, func(g hardware.GPU) bool { return g.PCI == old.PCI })
		switch {
		case i < 0:
			if stays(old.PCI) {
				found.GPUs = append(found.GPUs, old)
			}
		case !held(old.PCI):
		case found.GPUs[i].UUID != old.UUID:
			missing[old.PCI] = "replaced"
			found.GPUs[i] = old
		default:
			found.GPUs[i].MIG = offered(old.MIG, found.GPUs[i].MIG)
		}
	}
	found.Sort()
	m.node, m.missing, m.known, m.failure = found, since, true, nil
	return found, missing
}

// rails are those of a node's NICs. What is known from before counts, too, so that one
// that is missing for a while leaves the others their numbers.
func (m *model) rails(found hardware.Node, configured map[hardware.PCIAddress]int) map[hardware.PCIAddress]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := hardware.Node{GPUs: slices.Clone(found.GPUs), NICs: slices.Clone(found.NICs)}
	for _, old := range m.node.GPUs {
		if _, ok := found.GPU(old.PCI); !ok {
			all.GPUs = append(all.GPUs, old)
		}
	}
	for _, old := range m.node.NICs {
		if _, ok := found.NIC(old.PCI); !ok {
			all.NICs = append(all.NICs, old)
		}
	}
	return hardware.Rails(all, configured)
}

// keptNIC is how a NIC in use goes on being published: what the host does not see
// while its network interface is in a container's namespace stays as it was, and so
// does its bandwidth, which may be given away in parts.
func keptNIC(old, found hardware.NIC) hardware.NIC {
	if found.Interface == "" {
		found.Interface = old.Interface
	}
	if len(found.RDMA) == len(old.RDMA) {
		found.RDMA = old.RDMA
	}
	return found
}

// offered is how the parts of a GPU in use go on being published. Only the mode of a
// GPU that can be switched changes without consequence.
func offered(old, found *hardware.MIG) *hardware.MIG {
	if old == nil || found == nil || !old.Switchable {
		return old
	}
	out := *old
	out.Enabled = found.Enabled
	return &out
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
	// attributeComputeUUIDs lists the UUIDs of all compute instances where a slice
	// was divided; uuid and computeInstanceID are then those of the first.
	attributeComputeUUIDs resourceapi.QualifiedName = "computeInstanceUUIDs"
)

// attributes are those for a prepared device's metadata: the published ones, and
// of a MIG slice also what is known only now that it exists.
func (m *model) attributes(d plan.Device, made plan.Made) map[string]resourceapi.DeviceAttribute {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]resourceapi.DeviceAttribute{}
	for name, value := range m.published[d.Name] {
		out[string(name)] = value
	}
	if d.MIG == nil || len(made.Compute) == 0 {
		return out
	}
	first := made.Compute[0]
	out[string(pool.AttributeUUID)] = resourceapi.DeviceAttribute{StringValue: &first.UUID}
	out[string(attributeGPUInstance)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(made.GPUInstance))}
	out[string(attributeComputeInstance)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(first.ID))}
	if len(made.Compute) > 1 {
		out[string(attributeComputeUUIDs)] = resourceapi.DeviceAttribute{StringValues: made.UUIDs()}
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
