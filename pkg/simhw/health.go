package simhw

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Health is what a GPU says about its own condition. The zero value is a GPU on
// which nothing ever went wrong.
type Health struct {
	// Volatile errors are forgotten at a reset, Aggregate ones never.
	Volatile  ECCErrors `json:"volatile,omitzero"`
	Aggregate ECCErrors `json:"aggregate,omitzero"`
	// Rows is about memory rows that were replaced by spare ones.
	Rows RemappedRows `json:"rows,omitzero"`
	// Recovery is what NVML advises to do (field 230).
	Recovery nvml.DeviceGpuRecoveryAction `json:"recovery,omitempty"`
	// ChannelRepair and TPCRepair tell that a repair waits for a reset.
	ChannelRepair bool `json:"channelRepair,omitempty"`
	TPCRepair     bool `json:"tpcRepair,omitempty"`
	// NVLink counts errors of all links together; NVML shows them on link 0.
	NVLink NVLinkErrors `json:"nvlink,omitzero"`
	// Fabric is how far the GPU has come with joining the NVLink fabric; it has joined
	// where this is empty. Without a fabric it means nothing.
	Fabric FabricProgress `json:"fabric,omitempty"`
}

// FabricProgress is a GPU's way into the NVLink fabric, which the fabric manager
// leads it.
type FabricProgress string

// The steps before it has joined, and the end at which it has been refused.
const (
	FabricJoined     FabricProgress = ""
	FabricNotStarted FabricProgress = "not-started"
	FabricInProgress FabricProgress = "in-progress"
	FabricFailed     FabricProgress = "failed"
)

// ECCErrors are counts of errors by where they happened.
type ECCErrors struct {
	DRAMCorrected   uint64 `json:"dramCorrected,omitempty"`
	DRAMUncorrected uint64 `json:"dramUncorrected,omitempty"`
	SRAMCorrected   uint64 `json:"sramCorrected,omitempty"`
	// SRAMParity and SRAMSECDED are the uncorrected ones, by what found them.
	SRAMParity uint64 `json:"sramParity,omitempty"`
	SRAMSECDED uint64 `json:"sramSECDED,omitempty"`
}

// Corrected is the sum over the whole GPU.
func (c ECCErrors) Corrected() uint64 { return c.DRAMCorrected + c.SRAMCorrected }

// Uncorrected is the sum over the whole GPU.
func (c ECCErrors) Uncorrected() uint64 { return c.DRAMUncorrected + c.SRAMUncorrected() }

// SRAMUncorrected are those that either check found.
func (c ECCErrors) SRAMUncorrected() uint64 { return c.SRAMParity + c.SRAMSECDED }

// Plus adds up.
func (c ECCErrors) Plus(more ECCErrors) ECCErrors {
	return ECCErrors{
		DRAMCorrected: c.DRAMCorrected + more.DRAMCorrected, DRAMUncorrected: c.DRAMUncorrected + more.DRAMUncorrected,
		SRAMCorrected: c.SRAMCorrected + more.SRAMCorrected, SRAMParity: c.SRAMParity + more.SRAMParity, SRAMSECDED: c.SRAMSECDED + more.SRAMSECDED,
	}
}

// RemappedRows counts rows by why they were replaced.
type RemappedRows struct {
	Correctable   uint32 `json:"correctable,omitempty"`
	Uncorrectable uint32 `json:"uncorrectable,omitempty"`
	// Pending tells that a replacement waits for a reset, Failed that one failed.
	Pending bool `json:"pending,omitempty"`
	Failed  bool `json:"failed,omitempty"`
}

// NVLinkErrors are those that nvmlDeviceGetNvLinkErrorCounter tells.
type NVLinkErrors struct {
	Replay   uint64 `json:"replay,omitempty"`
	Recovery uint64 `json:"recovery,omitempty"`
	CRC      uint64 `json:"crc,omitempty"`
}

// afterReset is what a reset or a reboot leaves.
func (h Health) afterReset() Health {
	h.Volatile = ECCErrors{}
	h.Rows.Pending = false
	h.Recovery = nvml.GPU_RECOVERY_ACTION_NONE
	h.ChannelRepair, h.TPCRepair = false, false
	h.NVLink = NVLinkErrors{}
	h.Fabric = FabricJoined
	return h
}

// Settings are what an administrator may choose on a GPU, gone after a reboot.
type Settings struct {
	Persistence bool `json:"persistence,omitempty"`
	Accounting  bool `json:"accounting,omitempty"`
	// PowerLimitMilliwatts is 0 for the default.
	PowerLimitMilliwatts uint32 `json:"powerLimitMilliwatts,omitempty"`
}

// consequences are what comes with an Xid, as far as NVIDIA's catalogue of Xid
// errors says so (https://docs.nvidia.com/deploy/xid-errors/). An Xid that is not
// here changes nothing but is reported all the same.
var consequences = map[uint64]func(*Health){
	// A double-bit ECC error.
	48: func(h *Health) { h.uncorrected() },
	// A row was marked for remapping.
	63: func(h *Health) { h.Rows.Uncorrectable++; h.Rows.Pending = true },
	// A row could not be remapped.
	64: func(h *Health) { h.Rows.Failed = true; h.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET },
	// An error on an NVLink.
	74: func(h *Health) { h.NVLink.Recovery++; h.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET },
	// An uncorrectable error that was contained to the program that met it.
	94: func(h *Health) { h.uncorrected() },
	// One that was not.
	95: func(h *Health) { h.uncorrected(); h.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET },
	// The GPU's system processor does not answer, or failed.
	119: func(h *Health) { h.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET },
	120: func(h *Health) { h.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET },
}

func (h *Health) uncorrected() {
	h.Volatile.DRAMUncorrected++
	h.Aggregate.DRAMUncorrected++
}

// InjectXid reports an Xid of a GPU to all who listen, and does to the GPU's
// health what such an error does. gi and ci are the instances concerned, which
// need not exist any more, or NoInstance.
func (e *Engine) InjectXid(gpu int, xid uint64, gi, ci uint32) error {
	if change, ok := consequences[xid]; ok {
		if err := e.ChangeHealth(gpu, change); err != nil {
			return err
		}
	} else if err := e.checkGPU(gpu); err != nil {
		return err
	}
	e.Emit(Event{GPU: gpu, Type: nvml.EventTypeXidCriticalError, Data: xid, GI: gi, CI: ci})
	return nil
}

// SetHealth replaces a GPU's health.
func (e *Engine) SetHealth(gpu int, health Health) error {
	return e.ChangeHealth(gpu, func(h *Health) { *h = health })
}

// ChangeHealth changes a GPU's health and reports what NVML reports of it: new
// uncorrected errors, rows remapped or not, another recovery action.
func (e *Engine) ChangeHealth(gpu int, change func(*Health)) error {
	if err := e.checkGPU(gpu); err != nil {
		return err
	}
	var before, after Health
	err := e.commit(func(s *Snapshot) {
		before = s.GPUs[gpu].Health
		change(&s.GPUs[gpu].Health)
		after = s.GPUs[gpu].Health
	})
	if err != nil {
		return err
	}
	for _, ev := range healthEvents(before, after) {
		ev.GPU, ev.GI, ev.CI = gpu, NoInstance, NoInstance
		e.Emit(ev)
	}
	return nil
}

func healthEvents(before, after Health) []Event {
	var out []Event
	if after.Volatile.Uncorrected() > before.Volatile.Uncorrected() {
		out = append(out, Event{Type: nvml.EventTypeDoubleBitEccError})
	}
	if after.Volatile.Corrected() > before.Volatile.Corrected() {
		out = append(out, Event{Type: nvml.EventTypeSingleBitEccError})
	}
	if after.Rows.Pending && !before.Rows.Pending {
		out = append(out, Event{Type: nvml.EventTypeDramRetirementEvent})
	}
	if after.Rows.Failed && !before.Rows.Failed {
		out = append(out, Event{Type: nvml.EventTypeDramRetirementFailure})
	}
	if after.Recovery != before.Recovery {
		out = append(out, Event{Type: nvml.EventTypeGpuRecoveryAction, Data: uint64(after.Recovery)})
	}
	return out
}

// SetSettings changes a GPU's settings.
func (e *Engine) SetSettings(gpu int, change func(*Settings)) nvml.Return {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret
	}
	return e.commitCode(func(s *Snapshot) { change(&s.GPUs[gpu].Settings) })
}

func (e *Engine) checkGPU(gpu int) error {
	if n := len(e.server.GPUs); gpu < 0 || gpu >= n {
		return fmt.Errorf("there is no GPU %d: the server has %d", gpu, n)
	}
	return nil
}
