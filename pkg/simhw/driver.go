package simhw

import (
	"context"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Driver is the engine as a node's driver, without a library or another process
// between: for tests of what is above it. It sees everything and may do
// everything. Nothing opens its device nodes.
type Driver struct {
	engine *Engine
	// GPUMajor and CapabilityMajor are the majors of the nodes that it names.
	GPUMajor, CapabilityMajor int64
}

// NewDriver wraps an engine.
func NewDriver(e *Engine) *Driver {
	return &Driver{engine: e, GPUMajor: 195, CapabilityMajor: 511}
}

// Node is the model; nothing ever makes it fail.
func (d *Driver) Node(context.Context) (hardware.Node, []error, error) {
	n := d.engine.server.Node()
	for i, g := range d.engine.Snapshot().GPUs {
		n.GPUs[i].UUID, n.GPUs[i].Minor = g.UUID, g.Minor
		if m := n.GPUs[i].MIG; m != nil {
			m.Enabled = g.MIGEnabled
		}
	}
	return n, nil, nil
}

// MIGMode is the current and the pending mode.
func (d *Driver) MIGMode(_ context.Context, gpu hardware.GPUID) (current, pending bool, err error) {
	i, err := d.find(gpu)
	if err != nil {
		return false, false, err
	}
	current, pending, ret := d.engine.MIGMode(i)
	return current, pending, failed("get MIG mode", gpu, ret)
}

// SetMIGMode asks for a mode.
func (d *Driver) SetMIGMode(_ context.Context, gpu hardware.GPUID, enabled bool) error {
	i, err := d.find(gpu)
	if err != nil {
		return err
	}
	activation, ret := d.engine.SetMIGMode(i, enabled)
	if ret == nvml.SUCCESS {
		ret = activation
	}
	return failed(fmt.Sprintf("set MIG mode to %t", enabled), gpu, ret)
}

// Instances lists all GPU instances.
func (d *Driver) Instances(_ context.Context, gpu hardware.GPUID) ([]hardware.Instance, error) {
	i, err := d.find(gpu)
	if err != nil {
		return nil, err
	}
	var out []hardware.Instance
	for _, in := range d.engine.Snapshot().GPUs[i].Instances {
		out = append(out, instance(in))
	}
	return out, nil
}

// CreateGPUInstance makes an instance of the profile with that NVML enum value,
// exactly at the placement.
func (d *Driver) CreateGPUInstance(_ context.Context, gpu hardware.GPUID, profile int, at mig.Placement) (hardware.Instance, error) {
	what := fmt.Sprintf("create GPU instance of profile %d at %d", profile, at.Start)
	i, err := d.find(gpu)
	if err != nil {
		return hardware.Instance{}, err
	}
	p, ret := d.engine.Profile(i, profile)
	if ret != nvml.SUCCESS {
		return hardware.Instance{}, failed(what, gpu, ret)
	}
	in, ret := d.engine.CreateGPUInstance(i, p.ID, &at)
	return instance(in), failed(what, gpu, ret)
}

// CreateComputeInstance makes a compute instance of so many compute slices; 0 means
// the one that takes the whole GPU instance.
func (d *Driver) CreateComputeInstance(_ context.Context, gpu hardware.GPUID, gpuInstance, size int) (hardware.ComputeInstance, error) {
	what := fmt.Sprintf("create compute instance in GPU instance %d", gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return hardware.ComputeInstance{}, err
	}
	offered := d.engine.server.GPUs[i].Model.MIG.ComputeProfiles[in.ProfileEnum]
	if size == 0 {
		size = d.engine.giSlices(i, in)
	}
	j := slices.IndexFunc(offered, func(p catalog.ComputeProfile) bool { return p.Slices == size })
	if j < 0 {
		return hardware.ComputeInstance{}, failed(what, gpu, nvml.ERROR_NOT_SUPPORTED)
	}
	c, ret := d.engine.CreateComputeInstance(Handle{GPU: i, Serial: in.Serial}, offered[j].ID, nil)
	return hardware.ComputeInstance{ID: c.ID, UUID: c.UUID}, failed(what, gpu, ret)
}

// DestroyComputeInstance removes a compute instance.
func (d *Driver) DestroyComputeInstance(_ context.Context, gpu hardware.GPUID, gpuInstance, computeInstance int) error {
	what := fmt.Sprintf("destroy compute instance %d of GPU instance %d", computeInstance, gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return err
	}
	c, ok := in.ComputeInstance(computeInstance)
	if !ok {
		return failed(what, gpu, nvml.ERROR_NOT_FOUND)
	}
	return failed(what, gpu, d.engine.DestroyComputeInstance(Handle{GPU: i, Serial: c.Serial}))
}

// DestroyGPUInstance removes a GPU instance.
func (d *Driver) DestroyGPUInstance(_ context.Context, gpu hardware.GPUID, gpuInstance int) error {
	what := fmt.Sprintf("destroy GPU instance %d", gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return err
	}
	return failed(what, gpu, d.engine.DestroyGPUInstance(Handle{GPU: i, Serial: in.Serial}))
}

var computeModes = map[hardware.ComputeMode]nvml.ComputeMode{
	hardware.ComputeModeDefault:          nvml.COMPUTEMODE_DEFAULT,
	hardware.ComputeModeExclusiveProcess: nvml.COMPUTEMODE_EXCLUSIVE_PROCESS,
	hardware.ComputeModeProhibited:       nvml.COMPUTEMODE_PROHIBITED,
}

// ComputeMode is who may use the GPU at the same time.
func (d *Driver) ComputeMode(_ context.Context, gpu hardware.GPUID) (hardware.ComputeMode, error) {
	i, err := d.find(gpu)
	if err != nil {
		return "", err
	}
	mode, ret := d.engine.ComputeMode(i)
	for name, m := range computeModes {
		if m == mode {
			return name, failed("get compute mode", gpu, ret)
		}
	}
	return "", failed("get compute mode", gpu, nvml.ERROR_UNKNOWN)
}

// SetComputeMode changes it.
func (d *Driver) SetComputeMode(_ context.Context, gpu hardware.GPUID, mode hardware.ComputeMode) error {
	what := fmt.Sprintf("set compute mode to %s", mode)
	i, err := d.find(gpu)
	if err != nil {
		return err
	}
	m, ok := computeModes[mode]
	if !ok {
		return failed(what, gpu, nvml.ERROR_INVALID_ARGUMENT)
	}
	return failed(what, gpu, d.engine.SetComputeMode(i, m))
}

// DeviceNodes are the nodes of the whole GPU.
func (d *Driver) DeviceNodes(_ context.Context, gpu hardware.GPUID) ([]hardware.DeviceNode, error) {
	i, err := d.find(gpu)
	if err != nil {
		return nil, err
	}
	minor := d.engine.Snapshot().GPUs[i].Minor
	return []hardware.DeviceNode{{Path: fmt.Sprintf("/dev/nvidia%d", minor), Major: d.GPUMajor, Minor: int64(minor)}}, nil
}

// MIGDeviceNodes are the nodes that MIG devices of one GPU instance need.
func (d *Driver) MIGDeviceNodes(ctx context.Context, gpu hardware.GPUID, gpuInstance int, computeInstances []int) ([]hardware.DeviceNode, error) {
	what := fmt.Sprintf("find device nodes of GPU instance %d", gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return nil, err
	}
	nodes, err := d.DeviceNodes(ctx, gpu)
	if err != nil {
		return nil, err
	}
	minor := d.engine.Snapshot().GPUs[i].Minor
	capabilities := []int{GPUInstanceMinor(minor, gpuInstance)}
	for _, ci := range computeInstances {
		if _, ok := in.ComputeInstance(ci); !ok {
			return nil, failed(fmt.Sprintf("%s: compute instance %d", what, ci), gpu, nvml.ERROR_NOT_FOUND)
		}
		capabilities = append(capabilities, ComputeInstanceMinor(minor, gpuInstance, ci))
	}
	for _, capability := range capabilities {
		nodes = append(nodes, hardware.DeviceNode{
			Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", capability), Major: d.CapabilityMajor, Minor: int64(capability),
		})
	}
	return nodes, nil
}

// find is the index of the GPU, if it is the expected silicon.
func (d *Driver) find(gpu hardware.GPUID) (int, error) {
	for i, g := range d.engine.Snapshot().GPUs {
		if g.PCI != gpu.PCI {
			continue
		}
		if g.UUID != gpu.UUID {
			return 0, fmt.Errorf("find GPU %s: it is %s: %w", gpu, g.UUID, hardware.ErrReplaced)
		}
		return i, nil
	}
	return 0, fmt.Errorf("find GPU %s: %w", gpu, hardware.ErrNotFound)
}

func (d *Driver) findInstance(what string, gpu hardware.GPUID, id int) (int, InstanceState, error) {
	i, err := d.find(gpu)
	if err != nil {
		return 0, InstanceState{}, err
	}
	g := d.engine.Snapshot().GPUs[i]
	in, ok := g.Instance(id)
	if !ok {
		return 0, InstanceState{}, failed(what, gpu, nvml.ERROR_NOT_FOUND)
	}
	return i, *in, nil
}

func instance(in InstanceState) hardware.Instance {
	out := hardware.Instance{ID: in.ID, ProfileID: in.ProfileID, Placement: in.Placement}
	for _, c := range in.Compute {
		out.Compute = append(out.Compute, hardware.ComputeInstance{ID: c.ID, UUID: c.UUID})
	}
	return out
}

// failed turns a return code into the sentinel that callers look for.
func failed(what string, gpu hardware.GPUID, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	sentinel, ok := map[nvml.Return]error{
		nvml.ERROR_NOT_FOUND:              hardware.ErrNotFound,
		nvml.ERROR_NOT_SUPPORTED:          hardware.ErrNotSupported,
		nvml.ERROR_IN_USE:                 hardware.ErrInUse,
		nvml.ERROR_INSUFFICIENT_RESOURCES: hardware.ErrInsufficientResources,
		nvml.ERROR_NO_PERMISSION:          hardware.ErrNoPermission,
		nvml.ERROR_RESET_REQUIRED:         hardware.ErrResetRequired,
	}[ret]
	if !ok {
		return fmt.Errorf("%s on GPU %s: %w", what, gpu, ret)
	}
	return fmt.Errorf("%s on GPU %s: %w", what, gpu, sentinel)
}
