package simhw

import (
	"cmp"
	"fmt"
	"slices"
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

// Load starts a process on a GPU.
func (e *Engine) Load(gpu int, p Process) (Process, error) {
	if err := e.checkGPU(gpu); err != nil {
		return p, err
	}
	return p, e.commit(func(s *Snapshot) {
		g := &s.GPUs[gpu]
		g.Processes = append(g.Processes, p)
		slices.SortFunc(g.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	})
}

// Unload ends a process, or all of a GPU with a PID of 0.
func (e *Engine) Unload(gpu, pid int) error {
	if err := e.checkGPU(gpu); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return e.commit(func(s *Snapshot) {
		s.GPUs[gpu].Processes = slices.DeleteFunc(s.GPUs[gpu].Processes, func(p Process) bool { return pid == 0 || p.PID == pid })
	})
}
