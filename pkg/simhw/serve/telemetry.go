package serve

import (
	"encoding/binary"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// u64 reads an unsigned long long.
func (c *call) u64(i int) uint64 { return uint64(c.token(i)) }

func (c *call) writeU64(i int, v uint64) nvml.Return {
	return c.write(i, binary.NativeEndian.AppendUint64(nil, v))
}

// withoutMIG is the GPU of calls that do not answer with MIG on.
func (c *call) withoutMIG() (device, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret == nvml.SUCCESS && d.state.MIGEnabled {
		return device{}, nvml.ERROR_NOT_SUPPORTED
	}
	return d, ret
}

// reading is what the sensors of the GPU show.
func (c *call) reading() (simhw.Reading, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return simhw.Reading{}, ret
	}
	return c.engine.Reading(d.gpu)
}

// sensor serves a call that returns one number. Zero means that the catalogue
// does not know it, and then the GPU lacks the sensor.
func sensor(value func(simhw.Reading) uint32) func(*call) nvml.Return {
	return func(c *call) nvml.Return {
		r, ret := c.reading()
		if ret != nvml.SUCCESS {
			return ret
		}
		v := value(r)
		if v == 0 {
			return nvml.ERROR_NOT_SUPPORTED
		}
		return c.writeU32(1, v)
	}
}

// constant serves a call that returns the same number on every GPU.
func constant(v uint32) func(*call) nvml.Return {
	return func(c *call) nvml.Return {
		if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
			return ret
		}
		return c.writeU32(1, v)
	}
}

var (
	powerUsage   = sensor(func(r simhw.Reading) uint32 { return r.PowerMilliwatts })
	powerLimit   = sensor(func(r simhw.Reading) uint32 { return r.LimitMilliwatts })
	powerDefault = sensor(func(r simhw.Reading) uint32 { return r.DefaultLimitMilliwatts })
)

// used is the memory in use of the device that the first argument names, of total.
func (c *call) used(total uint64) uint64 {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return 0
	}
	gi := simhw.NoInstance
	if d.mig != nil {
		gi = d.mig.Instance.ID
	}
	return min(total, uint64(d.state.UsedMiB(gi))<<20)
}

// bar1Memory: a MIG device has its share, by memory slices.
func bar1Memory(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	m := c.engine.Server().GPUs[d.gpu].Model
	if m.BAR1MiB == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	total := uint64(m.BAR1MiB) << 20
	if d.mig != nil {
		total = total * uint64(d.mig.Instance.Placement.Size) / uint64(m.MIG.MemorySlices)
	}
	return writeStruct(c, 1, &nvml.BAR1Memory{Bar1Total: total, Bar1Free: total})
}

// utilization is not known with MIG on (nvml.h).
func utilization(c *call) nvml.Return {
	d, ret := c.withoutMIG()
	if ret != nvml.SUCCESS {
		return ret
	}
	r, ret := c.engine.Reading(d.gpu)
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &nvml.Utilization{Gpu: uint32(r.Busy), Memory: uint32(r.MemoryBusy)})
}

// mediaUtilization is that of engines which no simulated process uses.
func mediaUtilization(c *call) nvml.Return {
	const samplingMicroseconds = 167000 // as nvidia-smi's samples come
	if _, ret := c.withoutMIG(); ret != nvml.SUCCESS {
		return ret
	}
	if ret := c.writeU32(1, 0); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, samplingMicroseconds)
}

// minPowerShare of the default limit is the lowest that can be set: 200 W of an
// H100's 700 W, as nvidia-smi prints.
const minPowerShare = 3.5

func minPower(r simhw.Reading) uint32 {
	return uint32(float64(r.DefaultLimitMilliwatts) / minPowerShare)
}

func powerConstraints(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	if r.DefaultLimitMilliwatts == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	if ret := c.writeU32(1, minPower(r)); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, r.DefaultLimitMilliwatts)
}

func setPowerLimit(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	r, ret := c.engine.Reading(d.gpu)
	limit := c.u32(1)
	switch {
	case ret != nvml.SUCCESS:
		return ret
	case r.DefaultLimitMilliwatts == 0:
		return nvml.ERROR_NOT_SUPPORTED
	case limit < minPower(r) || limit > r.DefaultLimitMilliwatts:
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.engine.SetSettings(d.gpu, func(s *simhw.Settings) { s.PowerLimitMilliwatts = limit })
}

func totalEnergy(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	if r.DefaultLimitMilliwatts == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU64(1, r.EnergyMillijoules)
}

func temperature(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != uint32(nvml.TEMPERATURE_GPU) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.writeU32(2, r.TemperatureC)
}

// temperatureV reads the sensor from the struct that it fills.
func temperatureV(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.Temperature_v1](1) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	var asked nvml.Temperature_v1
	copy(bytesOf(&asked), c.arguments[1].bytes)
	if asked.SensorType != uint32(nvml.TEMPERATURE_GPU) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	asked.Temperature = int32(r.TemperatureC)
	return writeStruct(c, 1, &asked)
}

// temperatureThreshold: the limits that nvidia-smi prints for an H100.
func temperatureThreshold(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	limits := map[nvml.TemperatureThresholds]uint32{
		nvml.TEMPERATURE_THRESHOLD_SHUTDOWN: 92, nvml.TEMPERATURE_THRESHOLD_SLOWDOWN: 89,
		nvml.TEMPERATURE_THRESHOLD_GPU_MAX: 87, nvml.TEMPERATURE_THRESHOLD_MEM_MAX: 95,
	}
	if c.u32(1) >= uint32(nvml.TEMPERATURE_THRESHOLD_COUNT) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	limit, ok := limits[nvml.TemperatureThresholds(c.u32(1))]
	if !ok {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(2, limit)
}

func clockInfo(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeClock(2, r.SMClockMHz, r.MemoryClockMHz)
}

func maxClockInfo(c *call) nvml.Return {
	m, ret := c.model()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeClock(2, uint32(m.MaxSMClockMHz), uint32(m.MaxMemoryClockMHz))
}

// clock has the current clocks only; nothing sets others.
func clock(c *call) nvml.Return {
	r, ret := c.reading()
	switch {
	case ret != nvml.SUCCESS:
		return ret
	case c.u32(2) >= uint32(nvml.CLOCK_ID_COUNT):
		return nvml.ERROR_INVALID_ARGUMENT
	case c.u32(2) != uint32(nvml.CLOCK_ID_CURRENT):
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeClock(3, r.SMClockMHz, r.MemoryClockMHz)
}

// writeClock picks the clock that the second argument names; 0 is unknown.
func (c *call) writeClock(i int, sm, memory uint32) nvml.Return {
	mhz := sm
	switch nvml.ClockType(c.u32(1)) {
	case nvml.CLOCK_GRAPHICS, nvml.CLOCK_SM, nvml.CLOCK_VIDEO:
	case nvml.CLOCK_MEM:
		mhz = memory
	default:
		return nvml.ERROR_INVALID_ARGUMENT
	}
	if mhz == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(i, mhz)
}

// clocksReasons: nothing slows a simulated GPU down but the lack of work.
func clocksReasons(c *call) nvml.Return {
	r, ret := c.reading()
	if ret != nvml.SUCCESS {
		return ret
	}
	if r.Busy == 0 {
		return c.writeU64(1, nvml.ClocksEventReasonGpuIdle)
	}
	return c.writeU64(1, nvml.ClocksEventReasonNone)
}

func supportedClocksReasons(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU64(1, nvml.ClocksEventReasonAll)
}

// violationStatus: no limit was ever met.
func violationStatus(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) >= uint32(nvml.PERF_POLICY_COUNT) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return writeStruct(c, 2, &nvml.ViolationTime{ReferenceTime: uint64(time.Now().UnixMicro())})
}

// pcieGenerations are those of NVIDIA's data-centre GPUs (their datasheets).
var pcieGenerations = map[string]uint32{"Turing": 3, "Ampere": 4, "Ada Lovelace": 4, "Hopper": 5, "Blackwell": 5}

// pcieLanes is how many all of them have.
const pcieLanes = 16

func pcieGeneration(c *call) nvml.Return {
	m, ret := c.model()
	if ret != nvml.SUCCESS {
		return ret
	}
	generation, ok := pcieGenerations[m.Architecture]
	if !ok {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return c.writeU32(1, generation)
}

// pcieThroughput: no traffic, in KB/s.
func pcieThroughput(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) >= uint32(nvml.PCIE_UTIL_COUNT) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.writeU32(2, 0)
}

func persistenceMode(c *call) nvml.Return {
	return c.writeSetting(func(s *simhw.Settings) *bool { return &s.Persistence })
}

func setPersistenceMode(c *call) nvml.Return {
	return c.changeSetting(func(s *simhw.Settings) *bool { return &s.Persistence })
}

// writeSetting writes the nvmlEnableState_t of a GPU's setting.
func (c *call) writeSetting(of func(*simhw.Settings) *bool) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, flag(*of(&d.state.Settings)))
}

// changeSetting sets a GPU's setting to the nvmlEnableState_t of the call.
func (c *call) changeSetting(of func(*simhw.Settings) *bool) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) > uint32(nvml.FEATURE_ENABLED) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	on := c.u32(1) == uint32(nvml.FEATURE_ENABLED)
	return c.engine.SetSettings(d.gpu, func(s *simhw.Settings) { *of(s) = on })
}
