package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Why a device is not free.
var (
	// ErrHeld: another claim holds it. It goes away when that claim is released.
	ErrHeld = errors.New("device is held by another claim")
	// ErrForeign: a MIG instance that no claim made is in the way. It goes away
	// when a person removes that.
	ErrForeign = errors.New("a MIG instance that no claim made is in the way")
)

// Input is all that a plan is made from.
type Input struct {
	// Claim is allocated. Results of other drivers are left alone.
	Claim      *resourceapi.ResourceClaim
	DriverName string
	// Pools are this node's. A result of another node's pool is refused: equal servers
	// have devices of equal names. None means that nobody asks.
	Pools []string
	// Node is the model, State what is live on the GPUs involved, read under
	// their locks.
	Node  hardware.Node
	State map[hardware.PCIAddress]GPUState
	// GPUConfig, MIGConfig and RDMAConfig are the configuration by result index; a
	// missing one is empty.
	GPUConfig  map[int]*v1alpha1.GPUConfig
	MIGConfig  map[int]*v1alpha1.MIGConfig
	RDMAConfig map[int]*v1alpha1.RDMAConfig
	// Held are the plans, begun or finished, of all other claims on these GPUs and NICs.
	Held []Plan
	// ServeExisting hands out MIG slices that no claim made as they are. Without
	// it they are only in the way.
	ServeExisting bool
}

// GPUState is what changes on a GPU.
type GPUState struct {
	MIGEnabled  bool
	Instances   []hardware.Instance
	ComputeMode hardware.ComputeMode
}

// New makes the plan for a claim. It fails with all problems at once: devices
// that this node does not have (hardware.ErrNotFound), devices that are not free
// (ErrHeld, ErrForeign), a MIG mode that would have to change and cannot
// (hardware.ErrResetRequired), configuration that does not fit.
func New(in Input) (Plan, error) {
	b := builder{in: in, plan: Plan{Claim: ClaimOf(in.Claim)}, modes: map[hardware.PCIAddress]bool{}}
	var errs []error
	for i, r := range Results(in.Claim, in.DriverName) {
		if err := b.add(i, r); err != nil {
			errs = append(errs, fmt.Errorf("request %s: %w", r.Request, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	return b.plan, nil
}

// ClaimOf names a claim.
func ClaimOf(claim *resourceapi.ResourceClaim) Claim {
	return Claim{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
}

// Results yields the claim's allocation results of one driver with their index
// among all results.
func Results(claim *resourceapi.ResourceClaim, driverName string) func(yield func(int, resourceapi.DeviceRequestAllocationResult) bool) {
	return func(yield func(int, resourceapi.DeviceRequestAllocationResult) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for i, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == driverName && !yield(i, r) {
				return
			}
		}
	}
}

type builder struct {
	in   Input
	plan Plan
	// modes are the MIG modes that the steps so far lead to, by GPU.
	modes map[hardware.PCIAddress]bool
}

// add plans one allocated device.
func (b *builder) add(index int, r resourceapi.DeviceRequestAllocationResult) error {
	if len(b.in.Pools) > 0 && !slices.Contains(b.in.Pools, r.Pool) {
		return fmt.Errorf("device %s: it is one of pool %s, and this node has %s: %w", r.Device, r.Pool, strings.Join(b.in.Pools, " and "), hardware.ErrNotFound)
	}
	found, err := b.in.Node.Device(r.Device)
	if err != nil {
		return err
	}
	d := Device{
		Result: index, Request: r.Request, Pool: r.Pool, Name: r.Device,
		GPU:   found.GPU.ID(),
		Admin: r.AdminAccess != nil && *r.AdminAccess,
	}
	if p := found.Partition; p != nil {
		d.MIG = &Slice{Profile: p.Profile.Enum, ProfileID: p.Profile.ID, Name: p.Profile.Name, Placement: p.Placement}
	}
	if r.ShareID != nil {
		d.ShareID = string(*r.ShareID)
	}
	if found.NIC != nil {
		d.NIC = b.nic(index, r, found)
	}
	if d.Admin && d.MIG != nil {
		return fmt.Errorf("device %s: admin access to a MIG slice is not possible, since it would have to be made: ask for the whole GPU with admin access", d.Name)
	}
	if d.Admin {
		b.plan.Devices = append(b.plan.Devices, d)
		return nil
	}
	if err := b.free(&d); err != nil {
		return err
	}
	steps, err := b.steps(d, found, index)
	if err != nil {
		return err
	}
	b.plan.Devices = append(b.plan.Devices, d)
	b.plan.Steps = append(b.plan.Steps, steps...)
	return nil
}

// nic is what is held of a NIC. Only the scheduler knows that it is shared: each part
// that it gives away has an ID.
func (b *builder) nic(index int, r resourceapi.DeviceRequestAllocationResult, found hardware.Device) *NIC {
	n := &NIC{PCI: found.NIC.PCI, Shared: r.ShareID != nil}
	if cfg := b.in.RDMAConfig[index]; cfg != nil {
		n.ISSM, n.NCCL = cfg.ISSM, cfg.NCCL
	}
	return n
}

// steps are what makes a device ready; its index will be the next one. A NIC is ready
// as it is.
func (b *builder) steps(d Device, found hardware.Device, result int) ([]Step, error) {
	if d.GPU.PCI == "" {
		return nil, nil
	}
	i := len(b.plan.Devices)
	if d.MIG != nil && d.MIG.Existing != nil {
		if cfg := b.in.MIGConfig[result]; cfg != nil && len(cfg.ComputeInstances) > 0 {
			return nil, fmt.Errorf("device %s: MIGConfig.computeInstances cannot divide it: the slice exists already and is handed out as it is", d.Name)
		}
		return nil, nil
	}
	steps, err := b.mode(i, d, found)
	if err != nil {
		return nil, err
	}
	if d.MIG == nil {
		return append(steps, b.computeMode(i, d, b.in.GPUConfig[result])...), nil
	}
	steps = append(steps, Step{Kind: CreateGPUInstance, Device: i})
	parts, err := divide(found.Partition.Profile, b.in.MIGConfig[result])
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", d.Name, err)
	}
	for _, n := range parts {
		steps = append(steps, Step{Kind: CreateComputeInstance, Device: i, Slices: n})
	}
	return steps, nil
}

// mode is the step that brings the GPU into the MIG mode that the device needs.
func (b *builder) mode(i int, d Device, found hardware.Device) ([]Step, error) {
	enabled, known := b.modes[d.GPU.PCI]
	if !known {
		enabled = b.in.State[d.GPU.PCI].MIGEnabled
	}
	want := d.MIG != nil
	if want == enabled {
		return nil, nil
	}
	if m := found.GPU.MIG; m == nil || !m.Switchable {
		return nil, fmt.Errorf("device %s: MIG mode of GPU %s is %s, and is not changed without a reset on this GPU or by this configuration: %w",
			d.Name, d.GPU, onOff(enabled), hardware.ErrResetRequired)
	}
	b.modes[d.GPU.PCI] = want
	if want {
		return []Step{{Kind: EnableMIG, Device: i}}, nil
	}
	return []Step{{Kind: DisableMIG, Device: i}}, nil
}

func onOff(enabled bool) string {
	if enabled {
		return "on"
	}
	return "off"
}

func (b *builder) computeMode(i int, d Device, cfg *v1alpha1.GPUConfig) []Step {
	if cfg == nil || cfg.ComputeMode == nil {
		return nil
	}
	// In MIG mode there is none to be read; a GPU comes out of it with the default.
	prior := cmp.Or(b.in.State[d.GPU.PCI].ComputeMode, hardware.ComputeModeDefault)
	return []Step{{Kind: SetComputeMode, Device: i, ComputeMode: hardware.ComputeMode(*cfg.ComputeMode), Prior: prior}}
}

// divide is how many compute slices each compute instance takes, the largest
// first, since those have the fewest places; 0 stands for all.
func divide(p mig.Profile, cfg *v1alpha1.MIGConfig) ([]int, error) {
	if cfg == nil || len(cfg.ComputeInstances) == 0 {
		return []int{0}, nil
	}
	var out []int
	sum := 0
	for _, ci := range cfg.ComputeInstances {
		for range ptr.Deref(ci.Count, 1) {
			out = append(out, int(ci.Slices))
			sum += int(ci.Slices)
		}
	}
	if sum > p.Slices {
		return nil, fmt.Errorf("MIGConfig.computeInstances asks for %d compute slices in all, and a %s slice has %d", sum, p.Name, p.Slices)
	}
	slices.SortFunc(out, func(x, y int) int { return y - x })
	return out, nil
}

// free tells why a device cannot be had: another claim, an earlier device of the
// same claim, or an instance that is nobody's in the journal. One that is exactly
// the slice asked for is taken as it is, where that is wanted.
func (b *builder) free(d *Device) error {
	for _, p := range append(slices.Clone(b.in.Held), b.plan) {
		for _, other := range p.Devices {
			if !other.Admin && d.overlaps(other) {
				return fmt.Errorf("device %s: claim %s (UID %s) holds %s: %w", d.Name, p.Claim, p.Claim.UID, other.Name, ErrHeld)
			}
		}
	}
	for _, inst := range b.in.State[d.GPU.PCI].Instances {
		if b.owned(d.GPU.PCI, inst) || (d.MIG != nil && !d.MIG.Placement.Overlaps(inst.Placement)) {
			continue
		}
		if b.in.ServeExisting && d.MIG != nil && d.MIG.Matches(inst) && len(inst.Compute) > 0 {
			d.MIG.Existing = &inst
			continue
		}
		return fmt.Errorf("device %s: GPU %s has GPU instance %d on memory slices %d to %d; remove it (nvidia-smi mig -dci, -dgi), or ask for another device: %w",
			d.Name, d.GPU, inst.ID, inst.Placement.Start, inst.Placement.End()-1, ErrForeign)
	}
	return nil
}

// owned tells whether some other claim's plan explains the instance.
func (b *builder) owned(gpu hardware.PCIAddress, inst hardware.Instance) bool {
	return slices.ContainsFunc(b.in.Held, func(p Plan) bool { return p.Explains(gpu, inst) })
}

// Explains tells whether the instance is one of the plan's, made by it or given to it.
func (p Plan) Explains(gpu hardware.PCIAddress, inst hardware.Instance) bool {
	return slices.ContainsFunc(p.Devices, func(d Device) bool {
		return d.GPU.PCI == gpu && d.MIG != nil && d.MIG.Matches(inst)
	})
}

// Creates tells whether the instance is one that the plan makes.
func (p Plan) Creates(gpu hardware.PCIAddress, inst hardware.Instance) bool {
	return slices.ContainsFunc(p.Devices, func(d Device) bool {
		return d.GPU.PCI == gpu && d.MIG != nil && d.MIG.Existing == nil && d.MIG.Matches(inst)
	})
}

// overlaps tells whether two devices cannot be had side by side, because of their
// GPU or of their NIC.
func (d Device) overlaps(other Device) bool {
	return d.overlapsGPU(other) || d.overlapsNIC(other)
}

func (d Device) overlapsGPU(other Device) bool {
	if d.GPU.PCI == "" || d.GPU.PCI != other.GPU.PCI {
		return false
	}
	return d.MIG == nil || other.MIG == nil || d.MIG.Placement.Overlaps(other.MIG.Placement)
}

func (d Device) overlapsNIC(other Device) bool {
	if d.NIC == nil || other.NIC == nil || d.NIC.PCI != other.NIC.PCI {
		return false
	}
	return !d.NIC.Shared || !other.NIC.Shared
}

// Matches tells whether the instance is of the slice's profile at its placement.
// The ID that NVML gave it says nothing: it may be given again.
func (s Slice) Matches(inst hardware.Instance) bool {
	return s.ProfileID == inst.ProfileID && s.Placement == inst.Placement
}
