package serve

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// gpmSupport has the layout of nvmlGpmSupport_t.
type gpmSupport struct{ version, supported uint32 }

func gpmQuery(c *call) nvml.Return {
	slot, ret := c.slot()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != nvml.GPM_SUPPORT_VERSION {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	return writeStruct(c, 1, &gpmSupport{version: c.u32(1), supported: flag(slot.Model.GPM)})
}

func gpmAllocate(c *call) nvml.Return {
	if c.null(0) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.writeToken(0, newToken(kindGPMSample, 0, c.engine.AllocateGPMSample()))
}

// gpmSample reads the handle of a sample buffer.
func gpmSample(t token) (uint64, nvml.Return) {
	if t.kind() != kindGPMSample {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return t.handle().Serial, nvml.SUCCESS
}

func gpmFree(c *call) nvml.Return {
	sample, ret := gpmSample(c.token(0))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.FreeGPMSample(sample)
}

// gpmGet takes a sample of a GPU or, with the handle of a MIG device, of its GPU
// instance.
func gpmGet(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	gi := simhw.NoInstance
	if d.mig != nil {
		gi = d.mig.Instance.ID
	}
	return c.fillSample(d, gi, 1)
}

func gpmMIGGet(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	in, ok := d.state.Instance(int(c.u32(1)))
	if !ok || !c.view.seesInstance(d.state, *in) {
		return nvml.ERROR_NOT_FOUND
	}
	return c.fillSample(d, in.ID, 2)
}

func (c *call) fillSample(d device, gi, sample int) nvml.Return {
	if !c.engine.Server().GPUs[d.gpu].Model.GPM {
		return nvml.ERROR_NOT_SUPPORTED
	}
	n, ret := gpmSample(c.token(sample))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.FillGPMSample(n, d.gpu, gi)
}

// gpmMetrics has the layout of nvmlGpmMetricsGet_t, with numbers for the pointers
// to names, which stay NULL: nvml.h allows that.
type gpmMetrics struct {
	version, count uint32
	first, second  token
	metrics        [nvml.GPM_METRIC_MAX]gpmMetric
}

type gpmMetric struct {
	id, ret uint32
	value   float64
	names   [3]uint64
}

// gpmMetricsGet fails as a whole for samples that do not belong together, and
// metric by metric for what is not simulated.
func gpmMetricsGet(c *call) nvml.Return {
	var m gpmMetrics
	if len(c.arguments[0].bytes) < len(bytesOf(&m)) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	copy(bytesOf(&m), c.arguments[0].bytes)
	if m.version != nvml.GPM_METRICS_GET_VERSION {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	if m.count > uint32(len(m.metrics)) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	first, ret := gpmSample(m.first)
	if ret != nvml.SUCCESS {
		return ret
	}
	second, ret := gpmSample(m.second)
	if ret != nvml.SUCCESS {
		return ret
	}
	busy, ret := c.engine.GPMBusy(first, second)
	if ret != nvml.SUCCESS {
		return ret
	}
	for i := range m.metrics[:m.count] {
		to := &m.metrics[i]
		value, known := gpmValue(nvml.GpmMetricId(to.id), busy)
		to.value, to.ret, to.names = value, uint32(nvml.SUCCESS), [3]uint64{}
		if !known {
			to.ret = uint32(nvml.ERROR_NOT_SUPPORTED)
		}
	}
	return writeStruct(c, 0, &m)
}

// gpmValue is what a simulated program makes of the time that it is busy: half
// of the warps, a third of the time in tensor cores, half of the memory's
// bandwidth. These shares are made up. Whatever else there is stays idle.
func gpmValue(id nvml.GpmMetricId, busy float64) (float64, bool) {
	switch id {
	case nvml.GPM_METRIC_GRAPHICS_UTIL, nvml.GPM_METRIC_SM_UTIL:
		return busy, true
	case nvml.GPM_METRIC_SM_OCCUPANCY, nvml.GPM_METRIC_DRAM_BW_UTIL:
		return busy / 2, true
	case nvml.GPM_METRIC_ANY_TENSOR_UTIL, nvml.GPM_METRIC_HMMA_TENSOR_UTIL:
		return busy / 3, true
	}
	media := id >= nvml.GPM_METRIC_NVDEC_0_UTIL && id <= nvml.GPM_METRIC_NVOFA_1_UTIL
	arithmetic := id >= nvml.GPM_METRIC_INTEGER_UTIL && id <= nvml.GPM_METRIC_FP16_UTIL
	traffic := id >= nvml.GPM_METRIC_PCIE_TX_PER_SEC && id <= nvml.GPM_METRIC_PCIE_RX_PER_SEC ||
		id >= nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC && id <= nvml.GPM_METRIC_NVLINK_L17_TX_PER_SEC
	return 0, media || arithmetic || traffic
}
