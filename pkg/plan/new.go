package plan

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// ErrConflict: the device is held by another claim, or somebody else's MIG
// instance is in the way. It goes away when the holder does.
var ErrConflict = errors.New("device is not free")

// Input is all that a plan is made from.
type Input struct {
	// Claim is allocated. Results of other drivers are left alone.
	Claim      *resourceapi.ResourceClaim
	DriverName string
	// Node is the model, State what is live on the GPUs involved, read under
	// their locks.
	Node  hardware.Node
	State map[hardware.PCIAddress]GPUState
	// Config is the configuration by result index; a missing one is empty.
	Config map[int]*v1alpha1.GPUConfig
	// Held are the plans, begun or finished, of all other claims on these GPUs.
	Held []Plan
}

// GPUState is what changes on a GPU.
type GPUState struct {
	MIGEnabled  bool
	Instances   []hardware.Instance
	ComputeMode hardware.ComputeMode
}

// New makes the plan for a claim. It fails with all problems at once: devices
// that this node does not have (hardware.ErrNotFound), devices that are not free
// (ErrConflict), configuration that does not fit.
func New(in Input) (Plan, error) {
	b := builder{in: in, plan: Plan{Claim: ClaimOf(in.Claim)}, mode: map[hardware.PCIAddress]bool{}}
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
	// mode is the MIG mode that the steps so far lead to, by GPU.
	mode map[hardware.PCIAddress]bool
}

// add plans one allocated device.
func (b *builder) add(index int, r resourceapi.DeviceRequestAllocationResult) error {
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
	if d.Admin && d.MIG != nil {
		return fmt.Errorf("device %s: admin access to a MIG slice is not possible, since it would have to be made: ask for the whole GPU with admin access", d.Name)
	}
	if !d.Admin {
		if err := b.free(d); err != nil {
			return err
		}
	}
	b.plan.Devices = append(b.plan.Devices, d)
	if !d.Admin {
		b.steps(found, b.in.Config[index])
	}
	return nil
}

// steps appends what makes the last device ready.
func (b *builder) steps(found hardware.Device, cfg *v1alpha1.GPUConfig) {
	i := len(b.plan.Devices) - 1
	step := func(k StepKind) Step { return Step{Kind: k, Device: i} }
	state := b.in.State[found.GPU.PCI]
	enabled, known := b.mode[found.GPU.PCI]
	if !known {
		enabled = state.MIGEnabled
	}
	want := found.Partition != nil
	if want != enabled {
		kind := DisableMIG
		if want {
			kind = EnableMIG
		}
		b.plan.Steps = append(b.plan.Steps, step(kind))
	}
	b.mode[found.GPU.PCI] = want
	if want {
		b.plan.Steps = append(b.plan.Steps, step(CreateGPUInstance), step(CreateComputeInstance))
		return
	}
	if cfg != nil && cfg.ComputeMode != nil {
		s := step(SetComputeMode)
		s.ComputeMode, s.Prior = hardware.ComputeMode(*cfg.ComputeMode), state.ComputeMode
		b.plan.Steps = append(b.plan.Steps, s)
	}
}

// free tells why a device cannot be had: another claim, an earlier device of the
// same claim, or an instance that is nobody's in the journal.
func (b *builder) free(d Device) error {
	for _, p := range append(slices.Clone(b.in.Held), b.plan) {
		for _, other := range p.Devices {
			if !other.Admin && d.overlaps(other) {
				return fmt.Errorf("device %s: claim %s (UID %s) holds %s: %w", d.Name, p.Claim, p.Claim.UID, other.Name, ErrConflict)
			}
		}
	}
	for _, inst := range b.in.State[d.GPU.PCI].Instances {
		if b.owned(d.GPU.PCI, inst) || (d.MIG != nil && !d.MIG.Placement.Overlaps(inst.Placement)) {
			continue
		}
		return fmt.Errorf("device %s: a MIG instance that no claim made is in the way on GPU %s (GPU instance %d, slices %d to %d); remove it, or leave the GPU out: %w",
			d.Name, d.GPU, inst.ID, inst.Placement.Start, inst.Placement.End()-1, ErrConflict)
	}
	return nil
}

// owned tells whether some other claim's plan explains the instance.
func (b *builder) owned(gpu hardware.PCIAddress, inst hardware.Instance) bool {
	return slices.ContainsFunc(b.in.Held, func(p Plan) bool {
		return slices.ContainsFunc(p.Devices, func(d Device) bool {
			return d.GPU.PCI == gpu && d.MIG != nil && d.MIG.Matches(inst)
		})
	})
}

// overlaps tells whether two devices cannot be had side by side.
func (d Device) overlaps(other Device) bool {
	if d.GPU.PCI != other.GPU.PCI {
		return false
	}
	return d.MIG == nil || other.MIG == nil || d.MIG.Placement.Overlaps(other.MIG.Placement)
}

// Matches tells whether the instance is of the slice's profile at its placement.
// The ID that NVML gave it says nothing: it may be given again.
func (s Slice) Matches(inst hardware.Instance) bool {
	return s.ProfileID == inst.ProfileID && s.Placement == inst.Placement
}

// GPUsOf are the PCI addresses that a claim's results of this driver name,
// ascending and without duplicates. Names that are not this driver's are an
// error; whether the GPUs exist is not asked.
func GPUsOf(claim *resourceapi.ResourceClaim, driverName string) ([]hardware.PCIAddress, error) {
	var out []hardware.PCIAddress
	for _, r := range Results(claim, driverName) {
		addr, err := hardware.AddressOf(r.Device)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, addr)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
