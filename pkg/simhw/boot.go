package simhw

import (
	"crypto/sha256"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// bootID is another one at each boot of each node.
func bootID(seed string, boot int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "boot %d of %s", boot, seed))
	return catalog.FormatUUID("", [16]byte(h[:16]))
}

// Reboot is what a reboot of the node does: the boot id is another one, processes
// and instances are gone, lost GPUs are back, the driver is loaded, and MIG mode
// is off where it does not survive a reboot (Hopper and newer). Where it needs a
// reset it survives, and a pending change is in effect after the reboot, except
// in a machine with GPUs passed through, whose reboot does not reset them. NICs are
// as after the first boot.
func (e *Engine) Reboot() error {
	defer e.lockAll()()
	return e.commit(func(s *Snapshot) {
		s.Boot++
		s.BootID = bootID(s.Seed, s.Boot)
		s.Driver = loadedDriver(e.server)
		for i := range s.GPUs {
			g := &s.GPUs[i]
			g.clear()
			g.Lost, g.Settings = false, Settings{}
			m := e.server.GPUs[i].Model.MIG
			switch {
			case m == nil || !m.ModeNeedsReset:
				g.MIGEnabled, g.MIGPending = false, false
			case e.options.Virtualization == BareMetal:
				e.activate(s, i)
			}
		}
		e.rebootNICs(s)
	})
}

// clear takes away what no reset survives.
func (g *GPUState) clear() {
	g.Instances, g.Processes, g.ComputeMode = nil, nil, nvml.COMPUTEMODE_DEFAULT
	g.Health = g.Health.afterReset()
}

// activate puts a pending MIG mode into effect.
func (e *Engine) activate(s *Snapshot, gpu int) {
	g := &s.GPUs[gpu]
	if !g.MIGPending {
		return
	}
	g.MIGEnabled, g.MIGPending = !g.MIGEnabled, false
	e.moveMinor(s, gpu)
}

// moveMinor gives the GPU the next minor that nobody has, if minors move.
func (e *Engine) moveMinor(s *Snapshot, gpu int) {
	if !e.options.MinorsMove {
		return
	}
	taken := map[int]bool{}
	for _, g := range s.GPUs {
		taken[g.Minor] = true
	}
	for step := range MaxGPUs {
		if n := (s.GPUs[gpu].Minor + step) % MaxGPUs; !taken[n] {
			s.GPUs[gpu].Minor = n
			return
		}
	}
}

// Reset is nvidia-smi --gpu-reset: it puts a pending MIG mode into effect and
// removes instances. IN_USE while processes run on the GPU, NOT_SUPPORTED in a
// virtual machine, GPU_IS_LOST for a GPU that only a reboot brings back.
func (e *Engine) Reset(gpu int) nvml.Return {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	g := e.Snapshot().GPUs[gpu]
	switch {
	case g.Gone():
		return nvml.ERROR_GPU_IS_LOST
	case e.options.Virtualization != BareMetal:
		return nvml.ERROR_NOT_SUPPORTED
	case len(g.Processes) > 0:
		return nvml.ERROR_IN_USE
	}
	return e.commitCode(func(s *Snapshot) {
		s.GPUs[gpu].clear()
		e.activate(s, gpu)
	})
}
