package serve

import (
	"encoding/binary"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// maxFields bounds one call; NVML knows fewer ids than that.
const maxFields = 1024

// subject is what a field is read from.
type subject struct {
	server  catalog.Server
	model   catalog.Model
	state   simhw.GPUState
	reading simhw.Reading
	// scope is the field's, for NVLink fields the number of the link.
	scope uint32
	remap bool
}

// field is how one field id is answered: known tells whether this GPU has it.
type field struct {
	kind nvml.ValueType
	read func(subject) (value uint64, known bool)
}

func counter(read func(subject) uint64) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, func(s subject) (uint64, bool) { return read(s), true }}
}

// number is for fields of 32 bits that every GPU has.
func number(read func(subject) uint32) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_INT, func(s subject) (uint64, bool) { return uint64(read(s)), true }}
}

// watts is for fields that depend on the power limit, in milliwatts.
func watts(read func(simhw.Reading) uint32) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_INT, func(s subject) (uint64, bool) {
		return uint64(read(s.reading)), s.reading.DefaultLimitMilliwatts > 0
	}}
}

func ecc(read func(simhw.Health) uint64) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, func(s subject) (uint64, bool) { return read(s.state.Health), s.model.ECC }}
}

// row is for fields about remapped rows, which GPUs with live MIG instances do
// not tell.
func row(read func(simhw.RemappedRows) uint32) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_INT, func(s subject) (uint64, bool) {
		return uint64(read(s.state.Health.Rows)), s.model.ECC && s.remap && len(s.state.Instances) == 0
	}}
}

// link is for fields of the NVLink that the scope names.
func link(read func(subject) uint64) field {
	return field{nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, func(s subject) (uint64, bool) {
		return read(s), int(s.scope) < s.server.NVLinksPerGPU
	}}
}

// onFirst is a count that is shown on link 0.
func onFirst(read func(simhw.NVLinkErrors) uint64) field {
	return link(func(s subject) uint64 {
		if s.scope > 0 {
			return 0
		}
		return read(s.state.Health.NVLink)
	})
}

// nvlinkMBps is the speed of one link in one direction, as nvidia-smi nvlink -s
// prints it: 26.562 GB/s with NVLink 4, 53.125 GB/s with NVLink 5, 25 GB/s before.
func nvlinkMBps(s subject) uint64 {
	switch {
	case s.server.NVLinksPerGPU == 0:
		return 0
	case s.server.NVLinkVersion >= 5:
		return 53125
	case s.server.NVLinkVersion == 4:
		return 26562
	}
	return 25000
}

// fields are those that monitors ask for; others are not supported.
var fields = map[uint32]field{
	nvml.FI_DEV_ECC_CURRENT:             ecc(func(simhw.Health) uint64 { return 1 }),
	nvml.FI_DEV_ECC_PENDING:             ecc(func(simhw.Health) uint64 { return 1 }),
	nvml.FI_DEV_ECC_SBE_VOL_TOTAL:       ecc(func(h simhw.Health) uint64 { return h.Volatile.Corrected() }),
	nvml.FI_DEV_ECC_DBE_VOL_TOTAL:       ecc(func(h simhw.Health) uint64 { return h.Volatile.Uncorrected() }),
	nvml.FI_DEV_ECC_SBE_AGG_TOTAL:       ecc(func(h simhw.Health) uint64 { return h.Aggregate.Corrected() }),
	nvml.FI_DEV_ECC_DBE_AGG_TOTAL:       ecc(func(h simhw.Health) uint64 { return h.Aggregate.Uncorrected() }),
	nvml.FI_DEV_ECC_SBE_VOL_DEV:         ecc(func(h simhw.Health) uint64 { return h.Volatile.DRAMCorrected }),
	nvml.FI_DEV_ECC_DBE_VOL_DEV:         ecc(func(h simhw.Health) uint64 { return h.Volatile.DRAMUncorrected }),
	nvml.FI_DEV_ECC_SBE_AGG_DEV:         ecc(func(h simhw.Health) uint64 { return h.Aggregate.DRAMCorrected }),
	nvml.FI_DEV_ECC_DBE_AGG_DEV:         ecc(func(h simhw.Health) uint64 { return h.Aggregate.DRAMUncorrected }),
	nvml.FI_DEV_REMAPPED_COR:            row(func(r simhw.RemappedRows) uint32 { return r.Correctable }),
	nvml.FI_DEV_REMAPPED_UNC:            row(func(r simhw.RemappedRows) uint32 { return r.Uncorrectable }),
	nvml.FI_DEV_REMAPPED_PENDING:        row(func(r simhw.RemappedRows) uint32 { return flag(r.Pending) }),
	nvml.FI_DEV_REMAPPED_FAILURE:        row(func(r simhw.RemappedRows) uint32 { return flag(r.Failed) }),
	nvml.FI_DEV_GET_GPU_RECOVERY_ACTION: number(func(s subject) uint32 { return uint32(s.state.Health.Recovery) }),

	nvml.FI_DEV_MEMORY_TEMP:              number(func(s subject) uint32 { return s.reading.MemoryTemperatureC }),
	nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION: counter(func(s subject) uint64 { return s.reading.EnergyMillijoules }),
	nvml.FI_DEV_ENERGY:                   counter(func(s subject) uint64 { return s.reading.EnergyMillijoules }),
	nvml.FI_DEV_POWER_AVERAGE:            watts(func(r simhw.Reading) uint32 { return r.PowerMilliwatts }),
	nvml.FI_DEV_POWER_INSTANT:            watts(func(r simhw.Reading) uint32 { return r.PowerMilliwatts }),
	nvml.FI_DEV_POWER_MIN_LIMIT:          watts(minPower),
	nvml.FI_DEV_POWER_MAX_LIMIT:          watts(func(r simhw.Reading) uint32 { return r.DefaultLimitMilliwatts }),
	nvml.FI_DEV_POWER_DEFAULT_LIMIT:      watts(func(r simhw.Reading) uint32 { return r.DefaultLimitMilliwatts }),
	nvml.FI_DEV_POWER_CURRENT_LIMIT:      watts(func(r simhw.Reading) uint32 { return r.LimitMilliwatts }),
	nvml.FI_DEV_POWER_REQUESTED_LIMIT:    watts(func(r simhw.Reading) uint32 { return r.LimitMilliwatts }),
	nvml.FI_DEV_PERF_POLICY_POWER:        counter(func(subject) uint64 { return 0 }),
	nvml.FI_DEV_PERF_POLICY_THERMAL:      counter(func(subject) uint64 { return 0 }),
	nvml.FI_DEV_PCIE_REPLAY_COUNTER:      number(func(subject) uint32 { return 0 }),
	nvml.FI_DEV_IS_RESETLESS_MIG_SUPPORTED: number(func(s subject) uint32 {
		return flag(s.model.MIG != nil && !s.model.MIG.ModeNeedsReset)
	}),

	nvml.FI_DEV_NVLINK_LINK_COUNT:                 number(func(s subject) uint32 { return uint32(s.server.NVLinksPerGPU) }),
	nvml.FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT:     number(func(s subject) uint32 { return uint32(s.server.NVLinksPerGPU) }),
	nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON:          number(func(s subject) uint32 { return uint32(nvlinkMBps(s)) }),
	nvml.FI_DEV_NVLINK_GET_SPEED:                  link(nvlinkMBps),
	nvml.FI_DEV_NVLINK_GET_STATE:                  link(func(subject) uint64 { return 1 }),
	nvml.FI_DEV_NVLINK_GET_VERSION:                link(func(s subject) uint64 { return uint64(s.server.NVLinkVersion) }),
	nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY:            onFirst(func(n simhw.NVLinkErrors) uint64 { return n.Replay }),
	nvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY:          onFirst(func(n simhw.NVLinkErrors) uint64 { return n.Recovery }),
	nvml.FI_DEV_NVLINK_ERROR_DL_CRC:               onFirst(func(n simhw.NVLinkErrors) uint64 { return n.CRC }),
	nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX:         link(func(subject) uint64 { return 0 }),
	nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX:         link(func(subject) uint64 { return 0 }),
	nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: counter(func(s subject) uint64 { return s.state.Health.NVLink.CRC }),
	nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:   counter(func(s subject) uint64 { return s.state.Health.NVLink.Replay }),
	nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: counter(func(s subject) uint64 { return s.state.Health.NVLink.Recovery }),
}

// fieldValues answers each field with a return code of its own.
func fieldValues(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	n := int(int32(c.u32(1)))
	if n < 1 || n > maxFields || c.null(2) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	values := make([]nvml.FieldValue, n)
	size := len(bytesOf(&values[0]))
	if len(c.arguments[2].bytes) < n*size {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	reading, ret := c.engine.Reading(d.gpu)
	if ret != nvml.SUCCESS {
		return ret
	}
	server := c.engine.Server()
	s := subject{server: server, model: server.GPUs[d.gpu].Model, state: d.state, reading: reading, remap: c.remaps(d)}
	var b []byte
	for i := range values {
		copy(bytesOf(&values[i]), c.arguments[2].bytes[i*size:])
		s.answer(&values[i])
		b = append(b, bytesOf(&values[i])...)
	}
	return c.write(2, b)
}

func (s subject) answer(v *nvml.FieldValue) {
	s.scope = v.ScopeId
	*v = nvml.FieldValue{FieldId: v.FieldId, ScopeId: v.ScopeId, Timestamp: time.Now().UnixMicro(), NvmlReturn: uint32(nvml.ERROR_NOT_SUPPORTED)}
	f, ok := fields[v.FieldId]
	if v.FieldId == 0 || v.FieldId >= nvml.FI_MAX {
		v.NvmlReturn = uint32(nvml.ERROR_INVALID_ARGUMENT)
	}
	if !ok {
		return
	}
	value, known := f.read(s)
	if !known {
		return
	}
	v.NvmlReturn, v.ValueType = uint32(nvml.SUCCESS), uint32(f.kind)
	binary.NativeEndian.PutUint64(v.Value[:], value)
}
