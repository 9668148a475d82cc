package simhw

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// MIGMode is a GPU's current and pending mode. NOT_SUPPORTED without MIG.
func (e *Engine) MIGMode(gpu int) (current, pending bool, ret nvml.Return) {
	if _, ret := e.migModel(gpu); ret != nvml.SUCCESS {
		return false, false, ret
	}
	g := e.Snapshot().GPUs[gpu]
	return g.MIGEnabled, g.MIGEnabled != g.MIGPending, nvml.SUCCESS
}

// SetMIGMode switches the mode: at once, as Hopper and newer do, or, where that
// needs a GPU reset, at the next one. Then the call succeeds and the activation is
// RESET_REQUIRED. While GPU instances or processes live the mode cannot be
// switched: nvidia-smi then prints "In use by another client", so both the result
// and the activation are IN_USE. Where a reset is needed anyway, processes only
// make the activation IN_USE, which nvidia-smi reports as pending (MIG User Guide).
func (e *Engine) SetMIGMode(gpu int, on bool) (activation, ret nvml.Return) {
	return e.setMIGMode(gpu, on, false)
}

// PendMIGMode is SetMIGMode on a GPU that needs a reset for it, whatever this one
// is.
func (e *Engine) PendMIGMode(gpu int, on bool) (activation, ret nvml.Return) {
	return e.setMIGMode(gpu, on, true)
}

func (e *Engine) setMIGMode(gpu int, on, pend bool) (activation, ret nvml.Return) {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret, ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return ret, ret
	}
	pend = pend || m.ModeNeedsReset
	g := e.Snapshot().GPUs[gpu]
	switch {
	case g.MIGEnabled == on && !g.MIGPending:
		return nvml.SUCCESS, nvml.SUCCESS
	case g.MIGEnabled == on: // takes a pending change back
		ret = e.commitCode(func(s *Snapshot) { s.GPUs[gpu].MIGPending = false })
		return ret, ret
	case len(g.Instances) > 0, len(g.Processes) > 0 && !pend:
		return nvml.ERROR_IN_USE, nvml.ERROR_IN_USE
	case pend:
		activation = nvml.ERROR_RESET_REQUIRED
		if len(g.Processes) > 0 {
			activation = nvml.ERROR_IN_USE
		}
		return activation, e.commitCode(func(s *Snapshot) { s.GPUs[gpu].MIGPending = true })
	}
	e.options.Sleep(e.options.Latency.MIGMode)
	ret = e.commitCode(func(s *Snapshot) {
		s.GPUs[gpu].MIGPending = true
		e.activate(s, gpu)
	})
	return ret, ret
}

// ComputeMode is who may use the GPU at the same time. With MIG on, nvidia-smi
// prints the default for the GPU.
func (e *Engine) ComputeMode(gpu int) (nvml.ComputeMode, nvml.Return) {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return 0, ret
	}
	g := e.Snapshot().GPUs[gpu]
	switch {
	case g.Gone():
		return 0, nvml.ERROR_GPU_IS_LOST
	case g.MIGEnabled:
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
	g := e.Snapshot().GPUs[gpu]
	switch {
	case g.Gone():
		return nvml.ERROR_GPU_IS_LOST
	case mode < nvml.COMPUTEMODE_DEFAULT || mode >= nvml.COMPUTEMODE_COUNT:
		return nvml.ERROR_INVALID_ARGUMENT
	case mode == nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return nvml.ERROR_NOT_SUPPORTED // deprecated since CUDA 8
	case g.MIGEnabled:
		return nvml.ERROR_NOT_SUPPORTED
	}
	return e.commitCode(func(s *Snapshot) { s.GPUs[gpu].ComputeMode = mode })
}
