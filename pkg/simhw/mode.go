package simhw

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// MIGMode is a GPU's current and pending mode. NOT_SUPPORTED without MIG.
func (e *Engine) MIGMode(gpu int) (current, pending bool, ret nvml.Return) {
	if _, ret := e.migModel(gpu); ret != nvml.SUCCESS {
		return false, false, ret
	}
	on := e.Snapshot().GPUs[gpu].MIGEnabled
	return on, on, nvml.SUCCESS
}

// SetMIGMode switches the mode at once, as Hopper and newer do without a reset.
// While GPU instances live it cannot be switched off: nvidia-smi then prints "In
// use by another client", so both the result and the activation are IN_USE.
func (e *Engine) SetMIGMode(gpu int, on bool) (activation, ret nvml.Return) {
	if _, ret := e.migModel(gpu); ret != nvml.SUCCESS {
		return ret, ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	g := e.Snapshot().GPUs[gpu]
	if g.MIGEnabled == on {
		return nvml.SUCCESS, nvml.SUCCESS
	}
	if len(g.Instances) > 0 {
		return nvml.ERROR_IN_USE, nvml.ERROR_IN_USE
	}
	e.options.Sleep(e.options.Latency.MIGMode)
	ret = e.commitCode(func(s *Snapshot) { s.GPUs[gpu].MIGEnabled = on })
	return ret, ret
}

// ComputeMode is who may use the GPU at the same time. With MIG on, nvidia-smi
// prints the default for the GPU.
func (e *Engine) ComputeMode(gpu int) (nvml.ComputeMode, nvml.Return) {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return 0, ret
	}
	g := e.Snapshot().GPUs[gpu]
	if g.MIGEnabled {
		return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS
	}
	return g.ComputeMode, nvml.SUCCESS
}

// SetComputeMode changes it. NOT_SUPPORTED with MIG on (NVIDIA/go-nvml#61).
func (e *Engine) SetComputeMode(gpu int, mode nvml.ComputeMode) nvml.Return {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	switch {
	case mode < nvml.COMPUTEMODE_DEFAULT || mode >= nvml.COMPUTEMODE_COUNT:
		return nvml.ERROR_INVALID_ARGUMENT
	case mode == nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return nvml.ERROR_NOT_SUPPORTED // deprecated since CUDA 8
	case e.Snapshot().GPUs[gpu].MIGEnabled:
		return nvml.ERROR_NOT_SUPPORTED
	}
	return e.commitCode(func(s *Snapshot) { s.GPUs[gpu].ComputeMode = mode })
}
