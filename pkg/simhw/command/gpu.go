package command

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

func gpuFlag(fs *flag.FlagSet) *int { return fs.Int("gpu", 0, "`slot` of the GPU") }

// gpuPath is the path of something of a GPU.
func gpuPath(gpu int, what string) string { return fmt.Sprintf("/gpus/%d/%s", gpu, what) }

type modeRequest struct {
	Enabled bool `json:"enabled"`
}

type instanceRequest struct {
	Profile   string `json:"profile"`
	Start     int    `json:"start"`
	NoCompute bool   `json:"noCompute"`
}

type profileRequest struct {
	Profile       string `json:"profile"`
	MemoryMiB     int64  `json:"memoryMiB"`
	InstanceCount int    `json:"instanceCount"`
}

// gpuCommands are what an administrator does with nvidia-smi.
func gpuCommands() []ctlCommand {
	return []ctlCommand{
		{name: "mig", arguments: "--gpu N --enabled=BOOL", does: "switch MIG mode", flags: func(fs *flag.FlagSet) func() (request, error) {
			gpu, enabled := gpuFlag(fs), fs.Bool("enabled", true, "the MIG mode to set")
			return func() (request, error) { return post(gpuPath(*gpu, "mig"), modeRequest{*enabled}), nil }
		}},
		{name: "reset", arguments: "--gpu N", does: "reset a GPU: a pending MIG mode comes into effect, instances are gone", flags: gpuOnly("reset")},
		{name: "create-instance", arguments: "--gpu N --profile P --start S [--no-compute]", does: "make a MIG device that no claim knows of", flags: createFlags},
		{name: "destroy-instance", arguments: "--gpu N --id GI", does: "remove a GPU instance with what is in it", flags: func(fs *flag.FlagSet) func() (request, error) {
			gpu, id := gpuFlag(fs), fs.Int("id", 0, "`id` of the GPU instance")
			return func() (request, error) { return remove(gpuPath(*gpu, fmt.Sprintf("instances/%d", *id))), nil }
		}},
		{name: "profile", arguments: "--gpu N --profile P [--memory-mib M] [--count C]", does: "make NVML tell something else about a MIG profile, until the daemon ends", flags: profileFlags},
	}
}

// gpuOnly is for commands that need nothing but a GPU.
func gpuOnly(what string) func(*flag.FlagSet) func() (request, error) {
	return func(fs *flag.FlagSet) func() (request, error) {
		gpu := gpuFlag(fs)
		return func() (request, error) { return post(gpuPath(*gpu, what), nil), nil }
	}
}

func createFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	var r instanceRequest
	fs.StringVar(&r.Profile, "profile", "", "`name` of the MIG profile, for example 1g.10gb (required)")
	fs.IntVar(&r.Start, "start", 0, "first memory `slice`")
	fs.BoolVar(&r.NoCompute, "no-compute", false, "make no compute instance in it")
	return func() (request, error) {
		if r.Profile == "" {
			return request{}, errors.New("flag --profile is required")
		}
		return post(gpuPath(*gpu, "instances"), r), nil
	}
}

func profileFlags(fs *flag.FlagSet) func() (request, error) {
	gpu := gpuFlag(fs)
	var r profileRequest
	fs.StringVar(&r.Profile, "profile", "", "`name` of the MIG profile, for example 1g.10gb (required)")
	fs.Int64Var(&r.MemoryMiB, "memory-mib", 0, "memory of one instance in `MiB`; 0 is the true one")
	fs.IntVar(&r.InstanceCount, "count", 0, "`number` of instances that there can be; 0 is what the model says")
	return func() (request, error) {
		if r.Profile == "" {
			return request{}, errors.New("flag --profile is required")
		}
		return post(gpuPath(*gpu, "profiles"), r), nil
	}
}

func (c *control) gpuRoutes() {
	c.changeGPU("POST /gpus/{gpu}/mig", func(gpu int, r *http.Request) error {
		var body modeRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		_, ret := c.engine.SetMIGMode(gpu, body.Enabled)
		return refused("switch MIG mode", gpu, ret)
	})
	c.changeGPU("POST /gpus/{gpu}/reset", func(gpu int, _ *http.Request) error {
		return refused("reset", gpu, c.engine.Reset(gpu))
	})
	c.changeGPU("POST /gpus/{gpu}/instances", func(gpu int, r *http.Request) error {
		var body instanceRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		return createFromOutside(c.engine, gpu, body)
	})
	c.changeGPU("DELETE /gpus/{gpu}/instances/{id}", func(gpu int, r *http.Request) error {
		id, err := number(r, "id")
		if err != nil {
			return err
		}
		return refused("destroy instance", gpu, destroyFromOutside(c.engine, gpu, id))
	})
	c.changeGPU("POST /gpus/{gpu}/profiles", func(gpu int, r *http.Request) error {
		var body profileRequest
		if err := decode(r, &body); err != nil {
			return err
		}
		return c.engine.OverrideProfile(gpu, body.Profile, simhw.ProfileOverride{MemoryMiB: body.MemoryMiB, InstanceCount: body.InstanceCount})
	})
}

// createFromOutside is what an administrator with nvidia-smi mig -cgi [-C] does.
func createFromOutside(e *simhw.Engine, gpu int, r instanceRequest) error {
	if gpu < 0 || gpu >= len(e.Server().GPUs) || e.Server().GPUs[gpu].Model.MIG == nil {
		return refused("create instance", gpu, nvml.ERROR_INVALID_ARGUMENT)
	}
	m := e.Server().GPUs[gpu].Model.MIG
	i := slices.IndexFunc(m.Profiles, func(p mig.Profile) bool { return p.Name == r.Profile })
	if i < 0 {
		var names []string
		for _, p := range m.Profiles {
			names = append(names, p.Name)
		}
		return fmt.Errorf("GPU %d has no MIG profile %q: it has %q", gpu, r.Profile, names)
	}
	p := m.Profiles[i]
	in, ret := e.CreateGPUInstance(gpu, p.ID, &mig.Placement{Start: r.Start, Size: p.Placements[0].Size})
	if ret != nvml.SUCCESS || r.NoCompute {
		return refused("create instance", gpu, ret)
	}
	j := slices.IndexFunc(m.ComputeProfiles[p.Enum], func(c catalog.ComputeProfile) bool { return c.Slices == p.Slices })
	_, ret = e.CreateComputeInstance(simhw.Handle{GPU: gpu, Serial: in.Serial}, m.ComputeProfiles[p.Enum][j].ID, nil)
	return refused("create compute instance", gpu, ret)
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
