package serve

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// changeHealth is for calls that clear counters.
func (c *call) changeHealth(d device, change func(*simhw.Health)) nvml.Return {
	if err := c.engine.ChangeHealth(d.gpu, change); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	return nvml.SUCCESS
}

// withECC is the GPU of calls that GPUs without ECC do not answer.
func (c *call) withECC() (device, nvml.Return) {
	d, ret := c.device(0)
	if ret == nvml.SUCCESS && !c.engine.Server().GPUs[d.gpu].Model.ECC {
		return device{}, nvml.ERROR_NOT_SUPPORTED
	}
	return d, ret
}

// gpuWithECC is withECC for calls that do not take MIG devices.
func (c *call) gpuWithECC() (device, nvml.Return) {
	d, ret := c.withECC()
	if ret == nvml.SUCCESS && d.mig != nil {
		return device{}, nvml.ERROR_NOT_SUPPORTED
	}
	return d, ret
}

func eccMode(c *call) nvml.Return {
	if _, ret := c.gpuWithECC(); ret != nvml.SUCCESS {
		return ret
	}
	if ret := c.writeU32(1, uint32(nvml.FEATURE_ENABLED)); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, uint32(nvml.FEATURE_ENABLED))
}

func defaultECCMode(c *call) nvml.Return {
	if _, ret := c.gpuWithECC(); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, uint32(nvml.FEATURE_ENABLED))
}

// eccKind reads which errors a call counts, from its second and third argument.
func (c *call) eccKind() (corrected, volatile bool, ret nvml.Return) {
	if c.u32(1) >= uint32(nvml.MEMORY_ERROR_TYPE_COUNT) || c.u32(2) > uint32(nvml.AGGREGATE_ECC) {
		return false, false, nvml.ERROR_INVALID_ARGUMENT
	}
	return c.u32(1) == uint32(nvml.MEMORY_ERROR_TYPE_CORRECTED), c.u32(2) == uint32(nvml.VOLATILE_ECC), nvml.SUCCESS
}

func eccErrors(h simhw.Health, volatile bool) simhw.ECCErrors {
	if volatile {
		return h.Volatile
	}
	return h.Aggregate
}

func totalECCErrors(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	corrected, volatile, ret := c.eccKind()
	if ret != nvml.SUCCESS {
		return ret
	}
	errors := eccErrors(d.state.Health, volatile)
	if corrected {
		return c.writeU64(3, errors.Corrected())
	}
	return c.writeU64(3, errors.Uncorrected())
}

// detailedECCErrors knows a fixed set of places; those that newer GPUs do not
// count are zero (nvml.h).
func detailedECCErrors(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	corrected, volatile, ret := c.eccKind()
	if ret != nvml.SUCCESS {
		return ret
	}
	counts := nvml.EccErrorCounts{DeviceMemory: eccErrors(d.state.Health, volatile).DRAMUncorrected}
	if corrected {
		counts.DeviceMemory = eccErrors(d.state.Health, volatile).DRAMCorrected
	}
	return writeStruct(c, 3, &counts)
}

// memoryErrorCounter: GPUs since Ampere count DRAM and SRAM. With MIG on, the GPU
// does not tell volatile errors, and MIG devices tell only uncorrected volatile
// ones outside of DRAM (nvml.h); nothing here attributes an error to a MIG device.
func memoryErrorCounter(c *call) nvml.Return {
	d, ret := c.withECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	corrected, volatile, ret := c.eccKind()
	where := nvml.MemoryLocation(c.u32(3))
	switch {
	case ret != nvml.SUCCESS:
		return ret
	case where < 0 || where >= nvml.MEMORY_LOCATION_COUNT:
		return nvml.ERROR_INVALID_ARGUMENT
	case where != nvml.MEMORY_LOCATION_DRAM && where != nvml.MEMORY_LOCATION_SRAM:
		return nvml.ERROR_NOT_SUPPORTED
	case d.mig != nil && (where == nvml.MEMORY_LOCATION_DRAM || corrected || !volatile):
		return nvml.ERROR_NOT_SUPPORTED
	case d.mig != nil:
		return c.writeU64(4, 0)
	case d.state.MIGEnabled && volatile:
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU64(4, errorsAt(eccErrors(d.state.Health, volatile), where, corrected))
}

func errorsAt(errors simhw.ECCErrors, where nvml.MemoryLocation, corrected bool) uint64 {
	switch {
	case where == nvml.MEMORY_LOCATION_DRAM && corrected:
		return errors.DRAMCorrected
	case where == nvml.MEMORY_LOCATION_DRAM:
		return errors.DRAMUncorrected
	case corrected:
		return errors.SRAMCorrected
	}
	return errors.SRAMUncorrected()
}

func clearECCErrors(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) > uint32(nvml.AGGREGATE_ECC) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.changeHealth(d, func(h *simhw.Health) {
		if c.u32(1) == uint32(nvml.VOLATILE_ECC) {
			h.Volatile = simhw.ECCErrors{}
			return
		}
		h.Aggregate = simhw.ECCErrors{}
	})
}

func sramErrors(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.EccSramErrorStatus_v1](1) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	h := d.state.Health
	return writeStruct(c, 1, &nvml.EccSramErrorStatus_v1{
		Version:            c.u32(1),
		AggregateUncParity: h.Aggregate.SRAMParity, AggregateUncSecDed: h.Aggregate.SRAMSECDED, AggregateCor: h.Aggregate.SRAMCorrected,
		VolatileUncParity: h.Volatile.SRAMParity, VolatileUncSecDed: h.Volatile.SRAMSECDED, VolatileCor: h.Volatile.SRAMCorrected,
		AggregateUncBucketOther: h.Aggregate.SRAMUncorrected(),
	})
}

// remaps tells whether a GPU replaces rows (Ampere and newer) or retires pages.
func (c *call) remaps(d device) bool {
	return c.engine.Server().GPUs[d.gpu].Model.Architecture != "Turing"
}

// rows are the remapped ones. GPUs with live MIG instances do not tell (nvml.h).
func (c *call) rows() (device, nvml.Return) {
	d, ret := c.gpuWithECC()
	if ret == nvml.SUCCESS && (!c.remaps(d) || len(d.state.Instances) > 0) {
		return device{}, nvml.ERROR_NOT_SUPPORTED
	}
	return d, ret
}

func remappedRows(c *call) nvml.Return {
	d, ret := c.rows()
	if ret != nvml.SUCCESS {
		return ret
	}
	rows := d.state.Health.Rows
	for i, v := range []uint32{rows.Correctable, rows.Uncorrectable, flag(rows.Pending), flag(rows.Failed)} {
		if ret := c.writeU32(i+1, v); ret != nvml.SUCCESS {
			return ret
		}
	}
	return nvml.SUCCESS
}

// remappedRowsV2 counts what waits for a reset as not active yet.
func remappedRowsV2(c *call) nvml.Return {
	d, ret := c.rows()
	if ret != nvml.SUCCESS {
		return ret
	}
	rows := d.state.Health.Rows
	info := nvml.RemappedRowsInfo_v2{
		CorrActiveRemaps: rows.Correctable, UncActiveRemaps: rows.Uncorrectable,
		BPending: flag(rows.Pending), BFailureOccurred: flag(rows.Failed),
	}
	if rows.Pending && rows.Uncorrectable > 0 {
		info.UncActiveRemaps, info.UncInactiveRemaps = rows.Uncorrectable-1, 1
	}
	return writeStruct(c, 1, &info)
}

// banks is how many banks the histogram has, as in the example that NVIDIA's GPU
// Memory Error Management guide prints.
const banks = 640

// rowHistogram: every remapped row takes one spare row of a bank of its own.
func rowHistogram(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !c.remaps(d) {
		return nvml.ERROR_NOT_SUPPORTED
	}
	used := min(banks, d.state.Health.Rows.Correctable+d.state.Health.Rows.Uncorrectable)
	h := nvml.RowRemapperHistogramValues{Max: banks - used, High: used}
	if d.state.Health.Rows.Failed && used > 0 {
		h.High, h.None = used-1, 1
	}
	return writeStruct(c, 1, &h)
}

// retiredPages are none, on the GPUs that retire pages at all.
func retiredPages(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	switch {
	case ret != nvml.SUCCESS:
		return ret
	case c.remaps(d):
		return nvml.ERROR_NOT_SUPPORTED
	case c.u32(1) >= uint32(nvml.PAGE_RETIREMENT_CAUSE_COUNT):
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.writeU32(2, 0)
}

func retiredPagesPending(c *call) nvml.Return {
	d, ret := c.gpuWithECC()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.remaps(d) {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(1, uint32(nvml.FEATURE_DISABLED))
}

func repairStatus(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.RepairStatus_v1](1) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	h := d.state.Health
	return writeStruct(c, 1, &nvml.RepairStatus_v1{Version: c.u32(1), BChannelRepairPending: flag(h.ChannelRepair), BTpcRepairPending: flag(h.TPCRepair)})
}
