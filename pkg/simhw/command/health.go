package command

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// healthCommands change what a GPU says about itself.
func healthCommands() []ctlCommand {
	return []ctlCommand{
		{name: "event", arguments: "--gpu N --xid X [--instance GI]", does: "report an Xid, with what such an error does to the GPU's health", flags: eventFlags},
		{name: "ecc", arguments: "--gpu N [--dram-uncorrected N ...]", does: "add to the counts of ECC errors", flags: eccFlags},
		{name: "remap", arguments: "--gpu N [--uncorrectable N] [--pending]", does: "say which memory rows were remapped", flags: remapFlags},
		{name: "recovery", arguments: "--gpu N --action A", does: "say what NVML advises to do, from 0 (nothing) to 7", flags: recoveryFlags},
		{name: "fabric", arguments: "--gpu N --state S", does: "say how far the GPU has come with joining the NVLink fabric", flags: fabricFlags},
	}
}

// xidRequest is an Xid; instances are simhw.NoInstance for the whole GPU.
type xidRequest struct {
	Xid             uint64 `json:"xid"`
	GPUInstance     uint32 `json:"gpuInstance"`
	ComputeInstance uint32 `json:"computeInstance"`
}

func eventFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	xid := fs.Uint64("xid", 0, "the Xid's `number` (required)")
	gi := fs.Int("instance", -1, "`id` of the GPU instance concerned, which need not exist; -1 is the whole GPU")
	ci := fs.Int("compute-instance", -1, "`id` of the compute instance concerned; -1 is none")
	return func() (request, error) {
		if *xid == 0 {
			return request{}, errors.New("flag --xid is required")
		}
		return post(gpuPath(*gpu, "xids"), xidRequest{Xid: *xid, GPUInstance: instanceID(*gi), ComputeInstance: instanceID(*ci)}), nil
	}
}

func instanceID(id int) uint32 {
	if id < 0 {
		return simhw.NoInstance
	}
	return uint32(id)
}

// eccRequest is how many errors to add.
type eccRequest struct {
	Errors        simhw.ECCErrors `json:"errors"`
	AggregateOnly bool            `json:"aggregateOnly"`
}

func eccFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	var r eccRequest
	fs.Uint64Var(&r.Errors.DRAMCorrected, "dram-corrected", 0, "`number` of corrected errors in memory")
	fs.Uint64Var(&r.Errors.DRAMUncorrected, "dram-uncorrected", 0, "`number` of uncorrected errors in memory")
	fs.Uint64Var(&r.Errors.SRAMCorrected, "sram-corrected", 0, "`number` of corrected errors in caches")
	fs.Uint64Var(&r.Errors.SRAMParity, "sram-parity", 0, "`number` of uncorrected errors in caches that parity found")
	fs.Uint64Var(&r.Errors.SRAMSECDED, "sram-secded", 0, "`number` of uncorrected errors in caches that SEC-DED found")
	fs.BoolVar(&r.AggregateOnly, "aggregate-only", false, "count them as ones from before the last reset")
	return func() (request, error) { return post(gpuPath(*gpu, "ecc"), r), nil }
}

func remapFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	correctable := fs.Uint("correctable", 0, "`number` of rows remapped because of correctable errors")
	uncorrectable := fs.Uint("uncorrectable", 0, "`number` of rows remapped because of uncorrectable errors")
	pending := fs.Bool("pending", false, "a remapping waits for a reset")
	failed := fs.Bool("failed", false, "a remapping has failed")
	return func() (request, error) {
		rows := simhw.RemappedRows{Correctable: uint32(*correctable), Uncorrectable: uint32(*uncorrectable), Pending: *pending, Failed: *failed}
		return post(gpuPath(*gpu, "rows"), rows), nil
	}
}

func recoveryFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	action := fs.Int("action", 0, "the `number` of an nvmlDeviceGpuRecoveryAction_t")
	return func() (request, error) {
		if *action < 0 || *action > int(nvml.GPU_RECOVERY_ACTION_SYSTEM_REBOOT) {
			return request{}, fmt.Errorf("--action is %d, must be from 0 to %d", *action, nvml.GPU_RECOVERY_ACTION_SYSTEM_REBOOT)
		}
		return post(gpuPath(*gpu, "recovery"), *action), nil
	}
}

// fabricStates are the states by the flag's value.
var fabricStates = map[string]simhw.FabricProgress{
	"joined": simhw.FabricJoined, "not-started": simhw.FabricNotStarted, "in-progress": simhw.FabricInProgress, "failed": simhw.FabricFailed,
}

func fabricFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	names := slices.Sorted(maps.Keys(fabricStates))
	name := fs.String("state", "joined", fmt.Sprintf("one of %q; joined after a reset or a reboot", names))
	return func() (request, error) {
		state, ok := fabricStates[*name]
		if !ok {
			return request{}, fmt.Errorf("--state is %q, must be one of %q", *name, names)
		}
		return post(gpuPath(*gpu, "fabric"), state), nil
	}
}

func (c *control) healthRoutes() {
	c.changeGPU("POST /gpus/{gpu}/xids", func(gpu int, r *http.Request) error {
		var body xidRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.InjectXid(gpu, body.Xid, body.GPUInstance, body.ComputeInstance)
	})
	c.changeGPU("POST /gpus/{gpu}/ecc", func(gpu int, r *http.Request) error {
		var body eccRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.ChangeHealth(gpu, func(h *simhw.Health) {
			h.Aggregate = h.Aggregate.Plus(body.Errors)
			if !body.AggregateOnly {
				h.Volatile = h.Volatile.Plus(body.Errors)
			}
		})
	})
	c.changeGPU("POST /gpus/{gpu}/rows", func(gpu int, r *http.Request) error {
		var body simhw.RemappedRows
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.ChangeHealth(gpu, func(h *simhw.Health) { h.Rows = body })
	})
	c.changeGPU("POST /gpus/{gpu}/recovery", func(gpu int, r *http.Request) error {
		var body nvml.DeviceGpuRecoveryAction
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.ChangeHealth(gpu, func(h *simhw.Health) { h.Recovery = body })
	})
	c.changeGPU("POST /gpus/{gpu}/fabric", func(gpu int, r *http.Request) error {
		var body simhw.FabricProgress
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.ChangeHealth(gpu, func(h *simhw.Health) { h.Fabric = body })
	})
}
