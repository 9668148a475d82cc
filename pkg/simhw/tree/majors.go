package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/cleave-dra/cleave/pkg/simhw/serve"
)

// gpuMajor is NVIDIA's by assignment (Documentation/admin-guide/devices.txt).
const gpuMajor = 195

// The kernel gives dynamic majors from 254 and then from 511 downwards, so the
// lowest of its second range is the last that it would come to.
const (
	firstDynamic = 384
	lastDynamic  = 511
)

// Majors gives the numbers for the device nodes. They are chosen once, from those
// that the kernel has not given to anybody, and kept in the file, because running
// pods hold them. It fails if somebody got one of them since.
func (h Host) Majors(file string) (serve.Majors, error) {
	taken, err := h.majors()
	if err != nil {
		return serve.Majors{}, err
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		m, err := chooseMajors(taken)
		if err != nil {
			return m, err
		}
		raw, err := json.Marshal(m)
		if err != nil {
			return m, fmt.Errorf("encode device majors: %w", err)
		}
		return m, writeFile(file, raw, 0o644)
	}
	if err != nil {
		return serve.Majors{}, fmt.Errorf("read device majors: %w", err)
	}
	var m serve.Majors
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("decode device majors %s: %w", file, err)
	}
	for _, n := range []int{m.GPU, m.Capability, m.UVM} {
		if owner, ok := taken[n]; ok {
			return m, fmt.Errorf("device major %d, used for simulated nodes so far, now belongs to %q: stop the pods with simulated GPUs, remove %s and start again", n, owner, file)
		}
	}
	return m, nil
}

func chooseMajors(taken map[int]string) (serve.Majors, error) {
	var free []int
	if _, ok := taken[gpuMajor]; !ok {
		free = append(free, gpuMajor)
	}
	for n := firstDynamic; n <= lastDynamic && len(free) < 3; n++ {
		if _, ok := taken[n]; !ok {
			free = append(free, n)
		}
	}
	if len(free) < 3 {
		return serve.Majors{}, fmt.Errorf("no free device majors between %d and %d", firstDynamic, lastDynamic)
	}
	return serve.Majors{GPU: free[0], Capability: free[1], UVM: free[2]}, nil
}
