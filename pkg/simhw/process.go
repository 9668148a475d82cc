package simhw

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NoInstance is the instance id of a process on a GPU without MIG, as in NVML's
// lists of processes.
const NoInstance = 0xffffffff

// Process is one that computes on a GPU or on a MIG device. It keeps what it runs
// on from being removed, reset or switched.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// MemoryMiB is the GPU memory that it uses, in MiB.
	MemoryMiB int64 `json:"memoryMiB"`
	// GPUInstance and ComputeInstance are ids, or NoInstance.
	GPUInstance     int `json:"gpuInstance"`
	ComputeInstance int `json:"computeInstance"`
}

// Load starts a process on a GPU. A PID of 0 takes the next free one. The result
// has what was filled in.
func (e *Engine) Load(gpu int, p Process) (Process, error) {
	err := e.slot(gpu, func(s *Snapshot, g *GPUState) error {
		if p.PID == 0 {
			p.PID = freePID(s)
		}
		if err := g.takes(p); err != nil {
			return err
		}
		g.Processes = append(g.Processes, p)
		slices.SortFunc(g.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
		return nil
	})
	return p, err
}

// freePID is above all others; the first is one that looks like any.
func freePID(s *Snapshot) int {
	pid := 4242
	for _, g := range s.GPUs {
		for _, p := range g.Processes {
			pid = max(pid, p.PID+1)
		}
	}
	return pid
}

// takes tells why a process cannot start on the GPU.
func (g *GPUState) takes(p Process) error {
	switch {
	case g.Gone():
		return errors.New("it is lost or not there")
	case slices.ContainsFunc(g.Processes, func(q Process) bool { return q.PID == p.PID }):
		return fmt.Errorf("process %d runs on it already", p.PID)
	case !g.MIGEnabled && p.GPUInstance != NoInstance:
		return errors.New("its MIG mode is off: a process runs on the whole GPU")
	case g.MIGEnabled && p.GPUInstance == NoInstance:
		return errors.New("its MIG mode is on: a process needs a GPU instance with a compute instance")
	case g.MIGEnabled:
		in, ok := g.Instance(p.GPUInstance)
		if !ok {
			return fmt.Errorf("it has no GPU instance %d", p.GPUInstance)
		}
		if _, ok := in.ComputeInstance(p.ComputeInstance); !ok {
			return fmt.Errorf("its GPU instance %d has no compute instance %d", p.GPUInstance, p.ComputeInstance)
		}
	case g.ComputeMode == nvml.COMPUTEMODE_PROHIBITED:
		return errors.New("its compute mode is prohibited")
	case g.ComputeMode == nvml.COMPUTEMODE_EXCLUSIVE_PROCESS && len(g.Processes) > 0:
		return errors.New("its compute mode is exclusive, and a process runs on it")
	}
	return nil
}

// Unload ends a process, or all of a GPU with a PID of 0.
func (e *Engine) Unload(gpu, pid int) error {
	return e.slot(gpu, func(_ *Snapshot, g *GPUState) error {
		before := len(g.Processes)
		g.Processes = slices.DeleteFunc(g.Processes, func(p Process) bool { return pid == 0 || p.PID == pid })
		if pid != 0 && len(g.Processes) == before {
			return fmt.Errorf("process %d does not run on it", pid)
		}
		return nil
	})
}

// runs tells whether a process uses the compute instance, or with a negative
// compute instance any of the GPU instance.
func (g GPUState) runs(gi, ci int) bool {
	return slices.ContainsFunc(g.Processes, func(p Process) bool {
		return p.GPUInstance == gi && (ci < 0 || p.ComputeInstance == ci)
	})
}
