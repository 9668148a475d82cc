package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

const healthUsage = `  event --gpu N --xid X [--instance GI]          report an Xid, with what it does to the GPU's health
  ecc --gpu N [--dram-uncorrected N ...]         add to the counts of ECC errors
  remap --gpu N [--uncorrectable N --pending]    say which memory rows were remapped
  recovery --gpu N --action A                    say what NVML advises to do, from 0 (nothing) to 7
  load --gpu N [--instance GI --memory-mib M]    start a process
`

// healthCommands change what a GPU says about itself, each by a request whose
// body is JSON.
var healthCommands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"event":    eventCommand,
	"ecc":      eccCommand,
	"remap":    remapCommand,
	"recovery": recoveryCommand,
	"load":     loadCommand,
}

// gpuFlags are those that all of them have.
type gpuFlags struct {
	*flag.FlagSet
	root string
	gpu  int
}

func newGPUFlags(name string, stderr io.Writer) *gpuFlags {
	f := &gpuFlags{FlagSet: flag.NewFlagSet("cleave-simhw ctl "+name, flag.ContinueOnError)}
	f.SetOutput(stderr)
	f.StringVar(&f.root, "root", "", "driver root `directory` of the simulated node (required)")
	f.IntVar(&f.gpu, "gpu", 0, "`index` of the GPU")
	return f
}

// send parses the command line, then sends what it has filled in.
func (f *gpuFlags) send(ctx context.Context, args []string, what string, body func() (any, error), stdout io.Writer) error {
	if err := f.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if f.root == "" {
		return errors.New("flag --root is required")
	}
	v, err := body()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	form := url.Values{"body": {string(raw)}}
	return ask(ctx, f.root, http.MethodPost, fmt.Sprintf("/gpus/%d/%s", f.gpu, what), form, stdout)
}

// xidRequest is an Xid; instances are simhw.NoInstance for the whole GPU.
type xidRequest struct {
	Xid    uint64
	GI, CI uint32
}

func eventCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newGPUFlags(args[0], stderr)
	xid := f.Uint64("xid", 0, "the Xid's `number` (required)")
	gi := f.Int("instance", -1, "`id` of the GPU instance concerned; -1 for the whole GPU")
	ci := f.Int("compute-instance", -1, "`id` of the compute instance concerned; -1 for all")
	return f.send(ctx, args, "xids", func() (any, error) {
		if *xid == 0 {
			return nil, errors.New("flag --xid is required")
		}
		return xidRequest{Xid: *xid, GI: instanceID(*gi), CI: instanceID(*ci)}, nil
	}, stdout)
}

func instanceID(id int) uint32 {
	if id < 0 {
		return simhw.NoInstance
	}
	return uint32(id)
}

// eccRequest is how many errors to add.
type eccRequest struct {
	Errors        simhw.ECCErrors
	AggregateOnly bool
}

func eccCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newGPUFlags(args[0], stderr)
	var r eccRequest
	f.Uint64Var(&r.Errors.DRAMCorrected, "dram-corrected", 0, "`number` of corrected errors in memory")
	f.Uint64Var(&r.Errors.DRAMUncorrected, "dram-uncorrected", 0, "`number` of uncorrected errors in memory")
	f.Uint64Var(&r.Errors.SRAMCorrected, "sram-corrected", 0, "`number` of corrected errors in caches")
	f.Uint64Var(&r.Errors.SRAMParity, "sram-parity", 0, "`number` of uncorrected errors in caches that parity found")
	f.Uint64Var(&r.Errors.SRAMSECDED, "sram-secded", 0, "`number` of uncorrected errors in caches that SEC-DED found")
	f.BoolVar(&r.AggregateOnly, "aggregate-only", false, "count them as ones from before the last reset")
	return f.send(ctx, args, "ecc", func() (any, error) { return r, nil }, stdout)
}

func remapCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newGPUFlags(args[0], stderr)
	correctable := f.Uint("correctable", 0, "`number` of rows remapped because of correctable errors")
	uncorrectable := f.Uint("uncorrectable", 0, "`number` of rows remapped because of uncorrectable errors")
	pending := f.Bool("pending", false, "a remapping waits for a reset")
	failed := f.Bool("failed", false, "a remapping has failed")
	return f.send(ctx, args, "rows", func() (any, error) {
		return simhw.RemappedRows{Correctable: uint32(*correctable), Uncorrectable: uint32(*uncorrectable), Pending: *pending, Failed: *failed}, nil
	}, stdout)
}

func recoveryCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newGPUFlags(args[0], stderr)
	action := f.Int("action", 0, "the `number` of an nvmlDeviceGpuRecoveryAction_t")
	return f.send(ctx, args, "recovery", func() (any, error) {
		if *action < 0 || *action > int(nvml.GPU_RECOVERY_ACTION_SYSTEM_REBOOT) {
			return nil, fmt.Errorf("--action is %d, must be from 0 to %d", *action, nvml.GPU_RECOVERY_ACTION_SYSTEM_REBOOT)
		}
		return nvml.DeviceGpuRecoveryAction(*action), nil
	}, stdout)
}

// handleHealth is the daemon's side of these commands.
func handleHealth(mux *http.ServeMux, e *simhw.Engine) {
	mux.HandleFunc("POST /gpus/{gpu}/xids", accept(e, func(gpu int, r xidRequest) error {
		return e.InjectXid(gpu, r.Xid, r.GI, r.CI)
	}))
	mux.HandleFunc("POST /gpus/{gpu}/ecc", accept(e, func(gpu int, r eccRequest) error {
		return e.ChangeHealth(gpu, func(h *simhw.Health) {
			h.Aggregate = h.Aggregate.Plus(r.Errors)
			if !r.AggregateOnly {
				h.Volatile = h.Volatile.Plus(r.Errors)
			}
		})
	}))
	mux.HandleFunc("POST /gpus/{gpu}/rows", accept(e, func(gpu int, r simhw.RemappedRows) error {
		return e.ChangeHealth(gpu, func(h *simhw.Health) { h.Rows = r })
	}))
	mux.HandleFunc("POST /gpus/{gpu}/recovery", accept(e, func(gpu int, a nvml.DeviceGpuRecoveryAction) error {
		return e.ChangeHealth(gpu, func(h *simhw.Health) { h.Recovery = a })
	}))
	mux.HandleFunc("POST /gpus/{gpu}/processes", accept(e, func(gpu int, p simhw.Process) error {
		_, err := e.Load(gpu, p)
		return err
	}))
}

// accept decodes a request for one GPU and answers with the state after it.
func accept[T any](e *simhw.Engine, change func(gpu int, request T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		gpu, err := number(r, "gpu")
		var request T
		if err := errors.Join(err, json.Unmarshal([]byte(r.FormValue("body")), &request)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := change(gpu, request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, e.Snapshot())
	}
}
