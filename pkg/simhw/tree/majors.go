package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/cleave-dra/cleave/pkg/catalog"
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
	var kept serve.Majors
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return kept, fmt.Errorf("read device majors: %w", err)
	default:
		if err := json.Unmarshal(raw, &kept); err != nil {
			return kept, fmt.Errorf("decode device majors %s: %w", file, err)
		}
	}
	m := kept
	if err := completeMajors(&m, taken, file); err != nil || m == kept {
		return m, err
	}
	if raw, err = json.Marshal(m); err != nil {
		return m, fmt.Errorf("encode device majors: %w", err)
	}
	return m, writeFile(file, raw, 0o644)
}

// completeMajors chooses those that are 0: the ones that the kernel has assigned, if
// they are free. The file may be from before some of them were needed.
func completeMajors(m *serve.Majors, taken map[int]string, file string) error {
	all := []struct {
		number    *int
		preferred int // 0 is none
	}{{&m.GPU, gpuMajor}, {&m.Capability, 0}, {&m.UVM, 0}, {&m.InfiniBand, catalog.InfiniBandMajor}, {&m.Misc, 0}}
	used := map[int]bool{}
	for _, major := range all {
		if owner, ok := taken[*major.number]; ok && *major.number != 0 {
			return fmt.Errorf("device major %d, used for simulated nodes so far, now belongs to %q: stop the pods with simulated devices, remove %s and start again", *major.number, owner, file)
		}
		used[*major.number] = true
	}
	free := func(n int) bool { return taken[n] == "" && !used[n] && n != 0 }
	for _, major := range all {
		n := major.preferred
		for dynamic := firstDynamic; dynamic <= lastDynamic && !free(n); dynamic++ {
			n = dynamic
		}
		switch {
		case *major.number != 0:
			continue
		case !free(n):
			return fmt.Errorf("no free device majors between %d and %d", firstDynamic, lastDynamic)
		}
		*major.number, used[n] = n, true
	}
	return nil
}
