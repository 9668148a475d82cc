package serve

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Minors of the nodes that belong to no GPU.
const controlMinor = 255

// Majors are the numbers that the device nodes of this node have.
type Majors struct {
	// GPU is that of /dev/nvidiaN and /dev/nvidiactl, Capability that of
	// /dev/nvidia-caps/*, UVM that of /dev/nvidia-uvm.
	GPU        int `json:"gpu"`
	Capability int `json:"capability"`
	UVM        int `json:"uvm"`
	// InfiniBand is that of /dev/infiniband/*, Misc that of rdma_cm there, which on a
	// real node is one of the misc devices.
	InfiniBand int `json:"infiniband"`
	Misc       int `json:"misc"`
}

// view is what a client may see: the library tells which device nodes it has, as
// the real one finds out by opening them.
type view struct {
	control      bool
	minors       map[int]bool
	capabilities map[int]bool
}

// newView reads a greeting: "dev nvidia0 195 0", "cap nvidia-cap1 511 1". Nodes
// with other numbers than the simulator's are not its own.
func newView(greeting string, majors Majors) (view, error) {
	v := view{minors: map[int]bool{}, capabilities: map[int]bool{}}
	for line := range strings.Lines(greeting) {
		var kind, name string
		var major, minor int
		if _, err := fmt.Sscanf(line, "%s %s %d %d", &kind, &name, &major, &minor); err != nil {
			return view{}, fmt.Errorf("read greeting: line %q: %w", line, err)
		}
		switch {
		case kind == "cap" && major == majors.Capability:
			v.capabilities[minor] = true
		case kind == "dev" && major == majors.GPU && name == "nvidiactl" && minor == controlMinor:
			v.control = true
		case kind == "dev" && major == majors.GPU && name == fmt.Sprintf("nvidia%d", minor):
			v.minors[minor] = true
		}
	}
	return v, nil
}

// admitted tells whether the driver answers the client at all.
func (v view) admitted() nvml.Return {
	if !v.control {
		return nvml.ERROR_DRIVER_NOT_LOADED
	}
	return nvml.SUCCESS
}

// mayChange tells whether the client may change anything.
func (v view) mayChange() bool { return v.capabilities[simhw.CapabilityConfig] }

func (v view) seesAllMIG() bool {
	return v.capabilities[simhw.CapabilityConfig] || v.capabilities[simhw.CapabilityMonitor]
}

func (v view) seesGPU(g simhw.GPUState) bool { return !g.Absent && v.minors[g.Minor] }

func (v view) seesInstance(g simhw.GPUState, in simhw.InstanceState) bool {
	return v.seesAllMIG() || v.capabilities[simhw.GPUInstanceMinor(g.Minor, in.ID)]
}

func (v view) seesCompute(g simhw.GPUState, in simhw.InstanceState, c simhw.ComputeState) bool {
	return v.seesAllMIG() || v.seesInstance(g, in) && v.capabilities[simhw.ComputeInstanceMinor(g.Minor, in.ID, c.ID)]
}

// gpus are those that the client sees, in the order of its indices.
func (v view) gpus(s simhw.Snapshot) []simhw.GPUState {
	var out []simhw.GPUState
	for _, g := range s.GPUs {
		if v.seesGPU(g) {
			out = append(out, g)
		}
	}
	return out
}

// migDevices are those of a GPU that the client sees, in the order of its indices.
func (v view) migDevices(s simhw.Snapshot, gpu int) []simhw.MIGDevice {
	var out []simhw.MIGDevice
	for _, d := range s.MIGDevices(gpu) {
		if v.seesCompute(s.GPUs[gpu], d.Instance, d.Compute) {
			out = append(out, d)
		}
	}
	return out
}
