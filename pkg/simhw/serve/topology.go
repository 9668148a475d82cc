package serve

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// slot is the catalogue's entry for the GPU that the first argument names, or on
// which the MIG device that it names is.
func (c *call) slot() (catalog.ServerGPU, nvml.Return) {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return catalog.ServerGPU{}, ret
	}
	return c.engine.Server().GPUs[d.gpu], nvml.SUCCESS
}

// gpuHandle is the handle of a GPU by its place in the engine's list.
func (c *call) gpuHandle(gpu int) token { return gpuToken(c.engine.Snapshot().GPUs[gpu]) }

// gpuSlot is slot for calls that do not take MIG devices.
func (c *call) gpuSlot() (catalog.ServerGPU, nvml.Return) {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return catalog.ServerGPU{}, ret
	}
	return c.slot()
}

func devicePCIExt(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.PciInfoExt_v1](1) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	id := c.engine.Server().GPUs[d.gpu].Model.PCI
	info := nvml.PciInfoExt_v1{
		Version:        c.u32(1),
		PciDeviceId:    uint32(id.Device)<<16 | uint32(id.Vendor),
		PciSubSystemId: uint32(id.SubsystemDevice)<<16 | uint32(id.SubsystemVendor),
		BaseClass:      id.Class >> 16, SubClass: id.Class >> 8 & 0xff,
	}
	var function uint32
	if _, err := fmt.Sscanf(string(d.state.PCI), "%x:%x:%x.%x", &info.Domain, &info.Bus, &info.Device, &function); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	chars(info.BusId[:], fmt.Sprintf("%08X:%02X:%02X.%X", info.Domain, info.Bus, info.Device, function))
	return writeStruct(c, 1, &info)
}

// writeMask writes a set as the kernel and NVML do: an array of unsigned longs. A
// set that is larger than the caller's array is cut off.
func (c *call) writeMask(i int, longs uint32, members []int) nvml.Return {
	if longs == 0 || longs > math.MaxUint16 {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	mask := make([]uint64, longs)
	for _, m := range members {
		if m/64 < len(mask) {
			mask[m/64] |= 1 << (m % 64)
		}
	}
	var b []byte
	for _, word := range mask {
		b = binary.NativeEndian.AppendUint64(b, word)
	}
	return c.write(i, b)
}

// memoryAffinity: on the simulated servers a socket is one NUMA node, so that
// both scopes are the same.
func memoryAffinity(c *call) nvml.Return {
	slot, ret := c.slot()
	switch {
	case ret != nvml.SUCCESS:
		return ret
	case c.u32(3) > nvml.AFFINITY_SCOPE_SOCKET:
		return nvml.ERROR_INVALID_ARGUMENT
	case slot.NUMANode < 0:
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeMask(2, c.u32(1), []int{slot.NUMANode})
}

func cpuAffinityWithinScope(c *call) nvml.Return {
	if c.u32(3) > nvml.AFFINITY_SCOPE_SOCKET {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return cpuAffinity(c)
}

func cpuAffinity(c *call) nvml.Return {
	slot, ret := c.slot()
	if ret != nvml.SUCCESS {
		return ret
	}
	cpus, ok := c.engine.Server().NUMACPUs[slot.NUMANode]
	if !ok {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeMask(2, c.u32(1), cpuList(cpus))
}

// cpuList reads the kernel's form, "0-3,8"; what is not a number is left out.
func cpuList(text string) []int {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		for n := first; err == nil && err2 == nil && n <= last; n++ {
			out = append(out, n)
		}
	}
	return out
}

// topologyGPUSet are the GPUs beside a CPU.
func topologyGPUSet(c *call) nvml.Return {
	var tokens []token
	for _, g := range c.view.gpus(c.engine.Snapshot()) {
		slot := c.engine.Server().GPUs[g.Index]
		for _, cpu := range cpuList(c.engine.Server().NUMACPUs[slot.NUMANode]) {
			if cpu == int(c.u32(0)) {
				tokens = append(tokens, c.gpuHandle(g.Index))
			}
		}
	}
	return c.writeCounted(2, 1, tokens)
}

// writeCounted is NVML's way with lists: a count of zero only asks how many there
// are, another says how many are wanted at most.
func (c *call) writeCounted(array, count int, tokens []token) nvml.Return {
	asked := c.u32(count)
	if asked == 0 {
		return c.writeU32(count, uint32(len(tokens)))
	}
	return c.writeTokens(array, count, tokens[:min(int(asked), len(tokens))])
}

// level is how far apart two GPUs are: it counts the PCIe bridges at which their
// paths part. A path is a root port and, behind a switch, the switch's upstream
// and downstream ports.
func level(a, b catalog.ServerGPU) nvml.GpuTopologyLevel {
	common := 0
	for common < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[common] == b.Bridges[common] {
		common++
	}
	switch {
	case a.PCI == b.PCI:
		return nvml.TOPOLOGY_INTERNAL
	case a.RootComplex == b.RootComplex && common >= 2 && len(a.Bridges)-common <= 1 && len(b.Bridges)-common <= 1:
		return nvml.TOPOLOGY_SINGLE
	case a.RootComplex == b.RootComplex && common >= 2:
		return nvml.TOPOLOGY_MULTIPLE
	case a.RootComplex == b.RootComplex:
		return nvml.TOPOLOGY_HOSTBRIDGE
	case a.NUMANode == b.NUMANode:
		return nvml.TOPOLOGY_NODE
	}
	return nvml.TOPOLOGY_SYSTEM
}

// pair is the two GPUs that a call is about.
func (c *call) pair() (a, b device, ret nvml.Return) {
	if a, ret = c.device(0); ret == nvml.SUCCESS {
		b, ret = c.device(1)
	}
	if ret == nvml.SUCCESS && (a.mig != nil || b.mig != nil) {
		ret = nvml.ERROR_NOT_SUPPORTED
	}
	return a, b, ret
}

func commonAncestor(c *call) nvml.Return {
	a, b, ret := c.pair()
	if ret != nvml.SUCCESS {
		return ret
	}
	gpus := c.engine.Server().GPUs
	return c.writeU32(2, uint32(level(gpus[a.gpu], gpus[b.gpu])))
}

// nearestGPUs are those exactly at a level.
func nearestGPUs(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) > uint32(nvml.TOPOLOGY_SYSTEM) || c.u32(1)%10 != 0 {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	gpus := c.engine.Server().GPUs
	var tokens []token
	for _, g := range c.view.gpus(c.engine.Snapshot()) {
		if g.Index != d.gpu && level(gpus[d.gpu], gpus[g.Index]) == nvml.GpuTopologyLevel(c.u32(1)) {
			tokens = append(tokens, c.gpuHandle(g.Index))
		}
	}
	return c.writeCounted(3, 2, tokens)
}

// p2pStatus: MIG and peer-to-peer exclude each other (MIG User Guide), GPUs of
// different models have none, and without NVLinks none goes over the link between
// two sockets.
func p2pStatus(c *call) nvml.Return {
	a, b, ret := c.pair()
	if ret != nvml.SUCCESS {
		return ret
	}
	index := nvml.GpuP2PCapsIndex(c.u32(2))
	if index < nvml.P2P_CAPS_INDEX_READ || index >= nvml.P2P_CAPS_INDEX_UNKNOWN || a.gpu == b.gpu {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	server := c.engine.Server()
	x, y := server.GPUs[a.gpu], server.GPUs[b.gpu]
	linked, near := server.NVLinksPerGPU > 0, level(x, y) < nvml.TOPOLOGY_SYSTEM
	status := nvml.P2P_STATUS_OK
	switch {
	case a.state.MIGEnabled || b.state.MIGEnabled:
		status = nvml.P2P_STATUS_NOT_SUPPORTED
	case x.Model.Name != y.Model.Name:
		status = nvml.P2P_STATUS_GPU_NOT_SUPPORTED
	case index == nvml.P2P_CAPS_INDEX_NVLINK && !linked:
		status = nvml.P2P_STATUS_NOT_SUPPORTED
	case index == nvml.P2P_CAPS_INDEX_ATOMICS && !linked:
		status = nvml.P2P_STATUS_NOT_SUPPORTED
	case index == nvml.P2P_CAPS_INDEX_PCI && !near, !linked && !near:
		status = nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED
	}
	return c.writeU32(3, uint32(status))
}

func moduleID(c *call) nvml.Return {
	slot, ret := c.gpuSlot()
	if ret != nvml.SUCCESS {
		return ret
	}
	if slot.ModuleID == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(1, uint32(slot.ModuleID))
}

// withGrace tells GPUs that sit with a Grace CPU on one module and share memory
// addresses with it over NVLink-C2C.
func withGrace(m catalog.Model) bool {
	return strings.HasPrefix(m.Name, "gh") || strings.HasPrefix(m.Name, "gb")
}

// addressingMode is HMM where it is not Grace's ATS: what the open kernel modules,
// which driver 560 and newer prefer, show on a current kernel.
func addressingMode(c *call) nvml.Return {
	slot, ret := c.slot()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.DeviceAddressingMode_v1](1) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	mode := nvml.DEVICE_ADDRESSING_MODE_HMM
	if withGrace(slot.Model) {
		mode = nvml.DEVICE_ADDRESSING_MODE_ATS
	}
	return writeStruct(c, 1, &nvml.DeviceAddressingMode_v1{Version: c.u32(1), Value: uint32(mode)})
}

func c2cMode(c *call) nvml.Return {
	slot, ret := c.gpuSlot()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !withGrace(slot.Model) {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(1, 1)
}
