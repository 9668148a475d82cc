package simhw

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// Node is the model. A GPU that is lost is left out.
func (d *Driver) Node(ctx context.Context) (hardware.Node, []error, error) {
	if ret, ends := d.enter(ctx, Call{Function: CallInit, GPU: -1, Instance: -1}).Ends(); ends {
		return hardware.Node{}, nil, failed("initialize NVML", nil, ret)
	}
	if ret, ends := d.enter(ctx, Call{Function: callDriverVersion, GPU: -1, Instance: -1}).Ends(); ends {
		return hardware.Node{}, nil, failed("get driver version", nil, ret)
	}
	all := d.engine.server.Node()
	s := d.engine.Snapshot()
	n := hardware.Node{DriverVersion: s.Driver.Version, CUDADriverVersion: all.CUDADriverVersion}
	var skipped []error
	for i, g := range s.GPUs {
		if g.Absent {
			continue
		}
		id := hardware.GPUID{PCI: g.PCI, UUID: g.UUID}
		if ret, ends := d.enter(ctx, Call{Function: callUUID, GPU: i, Instance: -1}).Ends(); ends {
			skipped = append(skipped, failed("read", &id, ret))
			continue
		}
		n.GPUs = append(n.GPUs, d.gpu(all.GPUs[i], g))
	}
	return n, skipped, nil
}

// gpu is the catalog's GPU as it is now.
func (d *Driver) gpu(out hardware.GPU, g GPUState) hardware.GPU {
	out.UUID, out.Minor = g.UUID, g.Minor
	out.NVLink = d.engine.server.NVLink(d.engine.options.Seed)
	if g.Health.Fabric != FabricJoined {
		out.NVLink = nil
	}
	if !g.MIGCapable || out.MIG == nil {
		out.MIG = nil
		return out
	}
	out.MIG = &hardware.MIG{Enabled: g.MIGEnabled, Switchable: out.MIG.Switchable, Profiles: slices.Clone(out.MIG.Profiles)}
	for i, p := range out.MIG.Profiles {
		if told := d.engine.told(g.Index, p); told.MemoryMiB != p.MemoryMiB {
			told.Name = mig.Name(p.Enum, p.Slices, told.MemoryMiB, out.MemoryMiB)
			out.MIG.Profiles[i] = told
		}
	}
	return out
}

// enter begins a call. Like NVML, one that is held does not look at ctx.
func (d *Driver) enter(ctx context.Context, c Call) Verdict {
	return d.engine.Enter(context.WithoutCancel(ctx), c)
}

// call does one call about a GPU. do gets what is to become of it.
func (d *Driver) call(ctx context.Context, what string, gpu hardware.GPUID, c Call, do func(Verdict) nvml.Return) error {
	v := d.enter(ctx, c)
	if ret, ends := v.Ends(); ends {
		if v.NoEffect && v.Late > 0 {
			time.AfterFunc(v.Late, func() { _ = do(v) })
		}
		return failed(what, &gpu, ret)
	}
	return failed(what, &gpu, do(v))
}

// MIGMode is the current and the pending mode.
func (d *Driver) MIGMode(ctx context.Context, gpu hardware.GPUID) (current, pending bool, err error) {
	i, err := d.find(gpu)
	if err != nil {
		return false, false, err
	}
	err = d.call(ctx, "get MIG mode", gpu, Call{Function: callGetMIGMode, GPU: i, Instance: -1}, func(Verdict) (ret nvml.Return) {
		current, pending, ret = d.engine.MIGMode(i)
		return ret
	})
	return current, pending, err
}

// SetMIGMode asks for a mode.
func (d *Driver) SetMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error {
	i, err := d.find(gpu)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("set MIG mode to %t", enabled)
	return d.call(ctx, what, gpu, Call{Function: callSetMIGMode, GPU: i, Instance: -1, Changes: true}, func(v Verdict) nvml.Return {
		activation, ret := d.engine.setMIGMode(i, enabled, v.Pends)
		if ret != nvml.SUCCESS {
			return ret
		}
		return activation
	})
}

// Instances lists all GPU instances.
func (d *Driver) Instances(ctx context.Context, gpu hardware.GPUID) ([]hardware.Instance, error) {
	i, err := d.find(gpu)
	if err != nil {
		return nil, err
	}
	var out []hardware.Instance
	err = d.call(ctx, "list GPU instances", gpu, Call{Function: callListGI, GPU: i, Instance: -1}, func(Verdict) nvml.Return {
		for _, in := range d.engine.Snapshot().GPUs[i].Instances {
			out = append(out, instance(in))
		}
		return nvml.SUCCESS
	})
	return out, err
}

// CreateGPUInstance makes an instance of the profile with that NVML enum value,
// exactly at the placement.
func (d *Driver) CreateGPUInstance(ctx context.Context, gpu hardware.GPUID, profile int, at mig.Placement) (out hardware.Instance, err error) {
	what := fmt.Sprintf("create GPU instance of profile %d at %d", profile, at.Start)
	i, err := d.find(gpu)
	if err != nil {
		return out, err
	}
	err = d.call(ctx, what, gpu, Call{Function: callCreateGI, GPU: i, Instance: -1, Changes: true}, func(Verdict) nvml.Return {
		p, ret := d.engine.Profile(i, profile)
		if ret != nvml.SUCCESS {
			return ret
		}
		in, ret := d.engine.CreateGPUInstance(i, p.ID, &at)
		out = instance(in)
		return ret
	})
	return out, err
}

// CreateComputeInstance makes a compute instance of so many compute slices; 0 means
// the one that takes the whole GPU instance.
func (d *Driver) CreateComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, size int) (out hardware.ComputeInstance, err error) {
	what := fmt.Sprintf("create compute instance in GPU instance %d", gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return out, err
	}
	err = d.call(ctx, what, gpu, Call{Function: callCreateCI, GPU: i, Instance: in.ID, Changes: true}, func(Verdict) nvml.Return {
		if size == 0 {
			size = d.engine.giSlices(i, in)
		}
		offered := d.engine.server.GPUs[i].Model.MIG.ComputeProfiles[in.ProfileEnum]
		j := slices.IndexFunc(offered, func(p catalog.ComputeProfile) bool { return p.Slices == size })
		if j < 0 {
			return nvml.ERROR_NOT_SUPPORTED
		}
		c, ret := d.engine.CreateComputeInstance(Handle{GPU: i, Serial: in.Serial}, offered[j].ID, nil)
		out = hardware.ComputeInstance{ID: c.ID, UUID: c.UUID}
		return ret
	})
	return out, err
}

// DestroyComputeInstance removes a compute instance.
func (d *Driver) DestroyComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, computeInstance int) error {
	what := fmt.Sprintf("destroy compute instance %d of GPU instance %d", computeInstance, gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return err
	}
	c, ok := in.ComputeInstance(computeInstance)
	if !ok {
		return failed(what, &gpu, nvml.ERROR_NOT_FOUND)
	}
	return d.call(ctx, what, gpu, Call{Function: callDestroyCI, GPU: i, Instance: in.ID, Changes: true}, func(Verdict) nvml.Return {
		return d.engine.DestroyComputeInstance(Handle{GPU: i, Serial: c.Serial})
	})
}

// DestroyGPUInstance removes a GPU instance.
func (d *Driver) DestroyGPUInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance int) error {
	what := fmt.Sprintf("destroy GPU instance %d", gpuInstance)
	i, in, err := d.findInstance(what, gpu, gpuInstance)
	if err != nil {
		return err
	}
	return d.call(ctx, what, gpu, Call{Function: callDestroyGI, GPU: i, Instance: in.ID, Changes: true}, func(Verdict) nvml.Return {
		return d.engine.DestroyGPUInstance(Handle{GPU: i, Serial: in.Serial})
	})
}

var computeModes = map[hardware.ComputeMode]nvml.ComputeMode{
	hardware.ComputeModeDefault:          nvml.COMPUTEMODE_DEFAULT,
	hardware.ComputeModeExclusiveProcess: nvml.COMPUTEMODE_EXCLUSIVE_PROCESS,
	hardware.ComputeModeProhibited:       nvml.COMPUTEMODE_PROHIBITED,
}

// ComputeMode is who may use the GPU at the same time.
func (d *Driver) ComputeMode(ctx context.Context, gpu hardware.GPUID) (out hardware.ComputeMode, err error) {
	i, err := d.find(gpu)
	if err != nil {
		return "", err
	}
	err = d.call(ctx, "get compute mode", gpu, Call{Function: callGetCompute, GPU: i, Instance: -1}, func(Verdict) nvml.Return {
		mode, ret := d.engine.ComputeMode(i)
		for name, m := range computeModes {
			if m == mode {
				out = name
			}
		}
		return ret
	})
	return out, err
}

// SetComputeMode changes it.
func (d *Driver) SetComputeMode(ctx context.Context, gpu hardware.GPUID, mode hardware.ComputeMode) error {
	what := fmt.Sprintf("set compute mode to %s", mode)
	i, err := d.find(gpu)
	if err != nil {
		return err
	}
	m, ok := computeModes[mode]
	if !ok {
		return failed(what, &gpu, nvml.ERROR_INVALID_ARGUMENT)
	}
	return d.call(ctx, what, gpu, Call{Function: callSetCompute, GPU: i, Instance: -1, Changes: true}, func(Verdict) nvml.Return {
		return d.engine.SetComputeMode(i, m)
	})
}

// DeviceNodes are the nodes of the whole GPU.
func (d *Driver) DeviceNodes(ctx context.Context, gpu hardware.GPUID) ([]hardware.DeviceNode, error) {
	i, err := d.find(gpu)
	if err != nil {
		return nil, err
	}
	var out []hardware.DeviceNode
	err = d.call(ctx, "find device nodes", gpu, Call{Function: callMinor, GPU: i, Instance: -1}, func(Verdict) nvml.Return {
		minor := d.engine.Snapshot().GPUs[i].Minor
		out = []hardware.DeviceNode{{Path: fmt.Sprintf("/dev/nvidia%d", minor), Major: d.GPUMajor, Minor: int64(minor)}}
		return nvml.SUCCESS
	})
	return out, err
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
			return nil, failed(fmt.Sprintf("%s: compute instance %d", what, ci), &gpu, nvml.ERROR_NOT_FOUND)
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
	s := d.engine.Snapshot()
	if s.Driver.Unloaded {
		return 0, failed("find", &gpu, nvml.ERROR_DRIVER_NOT_LOADED)
	}
	for i, g := range s.GPUs {
		if g.PCI != gpu.PCI || g.Absent {
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
	switch {
	case g.Lost:
		return 0, InstanceState{}, failed(what, &gpu, nvml.ERROR_GPU_IS_LOST)
	case !ok:
		return 0, InstanceState{}, failed(what, &gpu, nvml.ERROR_NOT_FOUND)
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

// sentinels are what callers look for.
var sentinels = map[nvml.Return]error{
	nvml.ERROR_NOT_FOUND:               hardware.ErrNotFound,
	nvml.ERROR_NOT_SUPPORTED:           hardware.ErrNotSupported,
	nvml.ERROR_IN_USE:                  hardware.ErrInUse,
	nvml.ERROR_INSUFFICIENT_RESOURCES:  hardware.ErrInsufficientResources,
	nvml.ERROR_NO_PERMISSION:           hardware.ErrNoPermission,
	nvml.ERROR_RESET_REQUIRED:          hardware.ErrResetRequired,
	nvml.ERROR_GPU_IS_LOST:             hardware.ErrLost,
	nvml.ERROR_DRIVER_NOT_LOADED:       hardware.ErrDriverUnavailable,
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: hardware.ErrDriverUnavailable,
}

// failed turns a return code into an error; a nil GPU is none in particular.
func failed(what string, gpu *hardware.GPUID, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	var err error = ret
	if sentinel, ok := sentinels[ret]; ok {
		err = sentinel
	}
	if gpu == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s on GPU %s: %w", what, gpu, err)
}
