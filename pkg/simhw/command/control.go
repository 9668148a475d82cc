package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
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

// controlHandler is what ctl talks to.
func controlHandler(e *simhw.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, e.Snapshot()) })
	mux.HandleFunc("POST /reboot", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Reboot(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, e.Snapshot())
	})
	mux.HandleFunc("POST /gpus/{gpu}/mig", func(w http.ResponseWriter, r *http.Request) {
		gpu, err := number(r, "gpu")
		on, err2 := strconv.ParseBool(r.FormValue("enabled"))
		if err := errors.Join(err, err2); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, ret := e.SetMIGMode(gpu, on)
		answer(w, e, ret)
	})
	mux.HandleFunc("POST /gpus/{gpu}/instances", func(w http.ResponseWriter, r *http.Request) {
		gpu, err := number(r, "gpu")
		start, err2 := strconv.Atoi(r.FormValue("start"))
		if err := errors.Join(err, err2); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, e, createFromOutside(e, gpu, r.FormValue("profile"), start))
	})
	mux.HandleFunc("DELETE /gpus/{gpu}/instances/{id}", func(w http.ResponseWriter, r *http.Request) {
		gpu, err := number(r, "gpu")
		id, err2 := number(r, "id")
		if err := errors.Join(err, err2); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, e, destroyFromOutside(e, gpu, id))
	})
	handleHealth(mux, e)
	return mux
}

func number(r *http.Request, name string) (int, error) { return strconv.Atoi(r.PathValue(name)) }

// writeJSON leaves it to the client to notice an answer that breaks off.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func answer(w http.ResponseWriter, e *simhw.Engine, ret nvml.Return) {
	if ret != nvml.SUCCESS {
		http.Error(w, fmt.Sprintf("NVML return code %d", ret), http.StatusConflict)
		return
	}
	writeJSON(w, e.Snapshot())
}

// createFromOutside is what an administrator with nvidia-smi mig -cgi -C does.
func createFromOutside(e *simhw.Engine, gpu int, profile string, start int) nvml.Return {
	if gpu < 0 || gpu >= len(e.Server().GPUs) || e.Server().GPUs[gpu].Model.MIG == nil {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	m := e.Server().GPUs[gpu].Model.MIG
	i := slices.IndexFunc(m.Profiles, func(p mig.Profile) bool { return p.Name == profile })
	if i < 0 {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	p := m.Profiles[i]
	in, ret := e.CreateGPUInstance(gpu, p.ID, &mig.Placement{Start: start, Size: p.Placements[0].Size})
	if ret != nvml.SUCCESS {
		return ret
	}
	for _, c := range m.ComputeProfiles[p.Enum] {
		if c.Slices == p.Slices {
			_, ret = e.CreateComputeInstance(simhw.Handle{GPU: gpu, Serial: in.Serial}, c.ID, nil)
		}
	}
	return ret
}

// destroyFromOutside removes a GPU instance with all that is in it.
func destroyFromOutside(e *simhw.Engine, gpu, id int) nvml.Return {
	if gpu < 0 || gpu >= len(e.Server().GPUs) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	g := e.Snapshot().GPUs[gpu]
	in, ok := g.Instance(id)
	if !ok {
		return nvml.ERROR_NOT_FOUND
	}
	for _, c := range in.Compute {
		if ret := e.DestroyComputeInstance(simhw.Handle{GPU: gpu, Serial: c.Serial}); ret != nvml.SUCCESS {
			return ret
		}
	}
	return e.DestroyGPUInstance(simhw.Handle{GPU: gpu, Serial: in.Serial})
}
