package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// Apply carries a plan out, step by step. record is called with each step's
// result before the next one starts; an error of it stops the plan. The results
// so far are returned in every case. The caller holds the GPUs' locks and undoes
// what was done if it fails.
func (h *Host) Apply(ctx context.Context, p plan.Plan, record func(step int, r plan.Result) error) ([]plan.Result, error) {
	logger := klog.FromContext(ctx)
	var results []plan.Result
	for i, s := range p.Steps {
		d := p.Devices[s.Device]
		if err := ctx.Err(); err != nil {
			return results, fmt.Errorf("%s for %s: %w", s.Kind, d.Name, err)
		}
		r, err := h.step(ctx, p, i, results)
		if err != nil {
			return results, fmt.Errorf("%s for %s: %w", s.Kind, d.Name, err)
		}
		results = append(results, r)
		if err := record(i, r); err != nil {
			return results, fmt.Errorf("record %s for %s: %w", s.Kind, d.Name, err)
		}
		logger.V(4).Info("Did a step", "step", s.Kind, "device", d.Name, "gpuInstance", r.GPUInstance, "uuid", r.UUID)
	}
	return results, nil
}

func (h *Host) step(ctx context.Context, p plan.Plan, i int, results []plan.Result) (plan.Result, error) {
	s := p.Steps[i]
	d := p.Devices[s.Device]
	switch s.Kind {
	case plan.EnableMIG, plan.DisableMIG:
		return plan.Result{}, h.setMIGMode(ctx, d.GPU, s.Kind == plan.EnableMIG)
	case plan.CreateGPUInstance:
		inst, err := h.driver.CreateGPUInstance(ctx, d.GPU, d.MIG.Profile, d.MIG.Placement)
		return plan.Result{GPUInstance: inst.ID}, err
	case plan.CreateComputeInstance:
		made := p.Made(results, s.Device)
		ci, err := h.driver.CreateComputeInstance(ctx, d.GPU, made.GPUInstance, s.Slices)
		return plan.Result{GPUInstance: made.GPUInstance, ComputeInstance: ci.ID, UUID: ci.UUID}, err
	case plan.SetComputeMode:
		return plan.Result{}, h.driver.SetComputeMode(ctx, d.GPU, s.ComputeMode)
	default:
		return plan.Result{}, fmt.Errorf("step %q is not known to this version", s.Kind)
	}
}

// setMIGMode asks for a mode and reads it back, because a success may mean no
// more than that the change is pending.
func (h *Host) setMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error {
	if err := h.driver.SetMIGMode(ctx, gpu, enabled); err != nil {
		return err
	}
	current, _, err := h.driver.MIGMode(ctx, gpu)
	if err != nil {
		return err
	}
	if current != enabled {
		return fmt.Errorf("MIG mode of GPU %s: %w", gpu, hardware.ErrResetRequired)
	}
	return nil
}

// Undo takes back what a plan has done, last step first. results are those that
// were recorded; the step after them may have happened, too, so every step looks
// at the hardware before it acts and finds nothing to do if there is nothing.
// All steps are tried; what could not be undone is in the error.
func (h *Host) Undo(ctx context.Context, p plan.Plan, results []plan.Result) error {
	var errs []error
	for _, i := range p.Undo(len(results)) {
		d := p.Devices[p.Steps[i].Device]
		if err := h.undo(ctx, p, i, results); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("undo %s for %s: %w", p.Steps[i].Kind, d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// gone tells that there is nothing left to undo: the instance, the GPU or its
// MIG mode is away, or other silicon sits in its place.
func gone(err error) bool {
	return errors.Is(err, hardware.ErrNotFound) || errors.Is(err, hardware.ErrLost) ||
		errors.Is(err, hardware.ErrReplaced) || errors.Is(err, hardware.ErrNotSupported)
}

func (h *Host) undo(ctx context.Context, p plan.Plan, i int, results []plan.Result) error {
	s := p.Steps[i]
	d := p.Devices[s.Device]
	switch s.Kind {
	case plan.CreateGPUInstance:
		return h.destroy(ctx, d, p.Made(results, s.Device))
	case plan.SetComputeMode:
		now, err := h.driver.ComputeMode(ctx, d.GPU)
		if err != nil || now != s.ComputeMode {
			return err // somebody has changed it since: theirs stays
		}
		return h.driver.SetComputeMode(ctx, d.GPU, s.Prior)
	default:
		return nil // compute instances go with their GPU instance, modes stay
	}
}

// destroy removes a slice's instance. It is found by its placement, since a
// crash may have hit before NVML's id for it was recorded.
func (h *Host) destroy(ctx context.Context, d plan.Device, made plan.Made) error {
	inst, err := h.find(ctx, d, made)
	if err != nil {
		return err
	}
	for _, ci := range inst.Compute {
		if err := h.driver.DestroyComputeInstance(ctx, d.GPU, inst.ID, ci.ID); err != nil && !errors.Is(err, hardware.ErrNotFound) {
			return err
		}
	}
	return h.settled(ctx, func() error { return h.driver.DestroyGPUInstance(ctx, d.GPU, inst.ID) })
}

// Right after its compute instances are gone a GPU instance may be in use for some
// tenths of a second yet.
const (
	settlePoll = 100 * time.Millisecond
	settleTime = 2 * time.Second
)

// settled tries again for a moment what is in use.
func (h *Host) settled(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, settlePoll, settleTime, true, func(context.Context) (bool, error) {
		last = try()
		if errors.Is(last, hardware.ErrInUse) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) {
		return last
	}
	return err
}

// find looks a slice's instance up.
func (h *Host) find(ctx context.Context, d plan.Device, made plan.Made) (hardware.Instance, error) {
	live, err := h.driver.Instances(ctx, d.GPU)
	if err != nil {
		return hardware.Instance{}, err
	}
	for _, inst := range live {
		if !d.MIG.Matches(inst) {
			continue
		}
		if !made.Agrees(inst) {
			break
		}
		return inst, nil
	}
	return hardware.Instance{}, fmt.Errorf("MIG slice %s on GPU %s: %w", d.MIG.Name, d.GPU, hardware.ErrNotFound)
}

// Confirm checks that what a plan has made still exists, UUIDs included, and that its
// GPUs do. Its NICs are found, or not, by DeviceNodes.
func (h *Host) Confirm(ctx context.Context, p plan.Plan, results []plan.Result) error {
	for i, d := range p.Devices {
		if d.MIG == nil {
			if d.GPU.PCI == "" {
				continue
			}
			if _, err := h.driver.ComputeMode(ctx, d.GPU); err != nil {
				return fmt.Errorf("confirm %s: %w", d.Name, err)
			}
			continue
		}
		made := p.Made(results, i)
		inst, err := h.find(ctx, d, made)
		if err == nil {
			err = complete(inst, made)
		}
		if err != nil {
			return fmt.Errorf("confirm %s: %w", d.Name, err)
		}
	}
	return nil
}

// complete is nil if all compute instances that were made are in the instance.
func complete(inst hardware.Instance, made plan.Made) error {
	for _, c := range made.Compute {
		if !slices.Contains(inst.Compute, c) {
			return fmt.Errorf("its compute instance %d (%s): %w", c.ID, c.UUID, hardware.ErrNotFound)
		}
	}
	return nil
}

// DeviceNodes are the nodes that a container needs for each device of a plan, in the
// order of its devices.
func (h *Host) DeviceNodes(ctx context.Context, p plan.Plan, results []plan.Result) ([][]hardware.DeviceNode, error) {
	ofNICs, err := h.nicNodes(ctx, p)
	if err != nil {
		return nil, err
	}
	var out [][]hardware.DeviceNode
	for i, d := range p.Devices {
		nodes, err := h.gpuNodes(ctx, d, p.Made(results, i))
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.Name, err)
		}
		out = append(out, append(nodes, ofNICs[i]...))
	}
	return out, nil
}

// gpuNodes are those of the GPU or MIG slice of a device, if it has one.
func (h *Host) gpuNodes(ctx context.Context, d plan.Device, made plan.Made) ([]hardware.DeviceNode, error) {
	switch {
	case d.MIG != nil:
		return h.driver.MIGDeviceNodes(ctx, d.GPU, made.GPUInstance, made.IDs())
	case d.GPU.PCI != "":
		return h.driver.DeviceNodes(ctx, d.GPU)
	default:
		return nil, nil
	}
}
