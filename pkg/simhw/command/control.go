package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// listenControl is a socket of the daemon's own: only tools on the node use it.
func listenControl(root string) (net.Listener, error) {
	path := controlPath(root)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the control socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for control requests: %w", err)
	}
	return l, nil
}

// control is what ctl talks to. Every answer is JSON, every refusal one line.
type control struct {
	*http.ServeMux
	engine *simhw.Engine
	files  *tree.Tree
}

func newControl(e *simhw.Engine, files *tree.Tree) http.Handler {
	c := &control{ServeMux: http.NewServeMux(), engine: e, files: files}
	c.stateRoutes()
	c.gpuRoutes()
	c.slotRoutes()
	c.processRoutes()
	c.driverRoutes()
	c.fileRoutes()
	c.faultRoutes()
	c.healthRoutes()
	c.nicRoutes()
	return c
}

// handle answers with what do returns.
func (c *control) handle(pattern string, do func(*http.Request) (any, error)) {
	c.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		out, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client notices an answer that breaks off
	})
}

// change answers with the state after a change.
func (c *control) change(pattern string, do func(*http.Request) error) {
	c.handle(pattern, func(r *http.Request) (any, error) {
		if err := do(r); err != nil {
			return nil, err
		}
		return c.engine.Snapshot(), nil
	})
}

// changeGPU is change for paths with a GPU.
func (c *control) changeGPU(pattern string, do func(gpu int, r *http.Request) error) {
	c.change(pattern, func(r *http.Request) error {
		gpu, err := number(r, "gpu")
		if err != nil {
			return err
		}
		return do(gpu, r)
	})
}

// number is a number in a request's path.
func number(r *http.Request, name string) (int, error) { return strconv.Atoi(r.PathValue(name)) }

// decode reads a request's body.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("decode request: %w", err)
	}
	return nil
}

// advice tells what to do about a return code.
var advice = map[nvml.Return]string{
	nvml.ERROR_IN_USE:                 "end its processes (unload) and remove its instances (destroy-instance) first",
	nvml.ERROR_NOT_SUPPORTED:          "MIG needs a model that can and its mode switched on (mig), and a GPU of a virtual machine cannot be reset",
	nvml.ERROR_GPU_IS_LOST:            "reboot brings a lost GPU back, plug one that was taken out",
	nvml.ERROR_INSUFFICIENT_RESOURCES: "its room is taken, list shows by what",
	nvml.ERROR_INVALID_ARGUMENT:       "list shows which GPUs there are and what is on them; a profile has only certain starts",
	nvml.ERROR_NOT_FOUND:              "list shows which instances there are",
}

// refused is nil for success.
func refused(what string, gpu int, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	if text, ok := advice[ret]; ok {
		return fmt.Errorf("%s on GPU %d: %s: %s", what, gpu, simhw.CodeName(ret), text)
	}
	return fmt.Errorf("%s on GPU %d: %s", what, gpu, simhw.CodeName(ret))
}
