package promise

import (
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// machine is a server's simulated GPUs as a driver uses them: with MIG mode on,
// except where a GPU is handed out whole.
type machine struct {
	engine *simhw.Engine
	node   hardware.Node
	// whole has the GPUs that are handed out whole, by index.
	whole map[int]bool
}

func newMachine(server catalog.Server) (*machine, error) {
	engine, err := simhw.NewEngine(server, simhw.Options{})
	if err != nil {
		return nil, err
	}
	m := &machine{engine: engine, node: server.Node(), whole: map[int]bool{}}
	for i, g := range m.node.GPUs {
		if g.MIG == nil {
			continue
		}
		if _, ret := engine.SetMIGMode(i, true); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("switch MIG mode on: NVML return code %d", ret)
		}
	}
	return m, nil
}

// devices is everything that the node can ever hand out.
func (m *machine) devices() []string {
	var out []string
	for _, g := range m.node.GPUs {
		out = append(out, g.DeviceName())
		if g.MIG == nil {
			continue
		}
		for _, p := range g.MIG.Profiles {
			for _, pl := range p.Placements {
				out = append(out, g.PartitionName(p, pl))
			}
		}
	}
	return out
}

// made is a device that exists; it is enough to remove it.
type made struct {
	gpu      int
	instance *simhw.Handle
}

// refusedError is the hardware's normal no.
type refusedError nvml.Return

func (e refusedError) Error() string { return fmt.Sprintf("NVML return code %d", int(e)) }

// create makes the device. refusedError if the hardware has no room for it.
func (m *machine) create(name string) (made, error) {
	d, err := m.node.Device(name)
	if err != nil {
		return made{}, err
	}
	i := slices.IndexFunc(m.node.GPUs, func(g hardware.GPU) bool { return g.PCI == d.GPU.PCI })
	if d.Partition == nil {
		return m.createWhole(i)
	}
	in, ret := m.engine.CreateGPUInstance(i, d.Partition.Profile.ID, &d.Partition.Placement)
	switch {
	case ret == nvml.SUCCESS:
		return made{gpu: i, instance: &simhw.Handle{GPU: i, Serial: in.Serial}}, nil
	case ret == nvml.ERROR_INSUFFICIENT_RESOURCES, ret == nvml.ERROR_NOT_SUPPORTED && m.whole[i]:
		return made{}, refusedError(ret)
	default:
		return made{}, fmt.Errorf("create %s: NVML return code %d", name, ret)
	}
}

// createWhole hands out a whole GPU, which MIG mode has to be off for. That two
// do not get the same one is nothing that hardware knows.
func (m *machine) createWhole(i int) (made, error) {
	if m.whole[i] {
		return made{}, refusedError(nvml.ERROR_IN_USE)
	}
	if m.node.GPUs[i].MIG != nil {
		if _, ret := m.engine.SetMIGMode(i, false); ret != nvml.SUCCESS {
			return made{}, refusedError(ret)
		}
	}
	m.whole[i] = true
	return made{gpu: i}, nil
}

func (m *machine) destroy(d made) error {
	if d.instance != nil {
		if ret := m.engine.DestroyGPUInstance(*d.instance); ret != nvml.SUCCESS {
			return fmt.Errorf("destroy GPU instance: NVML return code %d", ret)
		}
		return nil
	}
	delete(m.whole, d.gpu)
	if m.node.GPUs[d.gpu].MIG == nil {
		return nil
	}
	if _, ret := m.engine.SetMIGMode(d.gpu, true); ret != nvml.SUCCESS {
		return fmt.Errorf("switch MIG mode on: NVML return code %d", ret)
	}
	return nil
}

// takes tells whether the device could be made now, by making it.
func (m *machine) takes(name string) (bool, error) {
	d, err := m.create(name)
	if refused := refusedError(0); errors.As(err, &refused) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, m.destroy(d)
}
