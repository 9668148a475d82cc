package promise

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// driver is what the test needs of a node's driver.
type driver interface {
	Node(ctx context.Context) (hardware.Node, []error, error)
	SetMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error
	CreateGPUInstance(ctx context.Context, gpu hardware.GPUID, profile int, at mig.Placement) (hardware.Instance, error)
	DestroyGPUInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance int) error
}

// machine is a server's simulated GPUs as the node plugin uses them: with MIG
// mode on, except where a GPU is handed out whole. Where the mode cannot be changed
// without a reset it stays on.
type machine struct {
	driver driver
	node   hardware.Node
	// whole has the GPUs that are handed out whole.
	whole map[hardware.PCIAddress]bool
	// nics are beside the GPUs, all of which are then behind one switch; busy are those
	// that are handed out.
	nics []hardware.NIC
	busy map[hardware.PCIAddress]bool
}

func newMachine(ctx context.Context, server catalog.Server, nics []hardware.NIC) (*machine, error) {
	engine, err := simhw.NewEngine(server, simhw.Options{})
	if err != nil {
		return nil, err
	}
	m := &machine{
		driver: simhw.NewDriver(engine), whole: map[hardware.PCIAddress]bool{},
		nics: nics, busy: map[hardware.PCIAddress]bool{},
	}
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	for i, g := range m.node.GPUs {
		if g.MIG == nil {
			continue
		}
		err := m.driver.SetMIGMode(ctx, g.ID(), true)
		if errors.Is(err, hardware.ErrResetRequired) && !g.MIG.Switchable {
			err = nil
			if ret := engine.Reset(i); ret != nvml.SUCCESS {
				err = fmt.Errorf("reset GPU %s: %w", g.ID(), ret)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return m, m.read(ctx)
}

func (m *machine) read(ctx context.Context) error {
	node, unread, err := m.driver.Node(ctx)
	m.node = node
	m.node.NICs = m.nics
	for i := range m.node.GPUs {
		if len(m.nics) > 0 {
			m.node.GPUs[i].Bridges = behind(8 + i)
		}
	}
	return errors.Join(append(unread, err)...)
}

// devices is everything that the node can ever hand out.
func (m *machine) devices() []string {
	var out []string
	for _, g := range m.node.GPUs {
		if g.MIG == nil || g.MIG.Switchable {
			out = append(out, g.DeviceName())
		}
		if g.MIG == nil {
			continue
		}
		for _, p := range g.MIG.Profiles {
			for _, pl := range p.Placements {
				out = append(out, g.PartitionName(p, pl))
			}
		}
	}
	return append(out, m.nicDevices()...)
}

// made is a device that exists; it is enough to remove it.
type made struct {
	// gpu is empty for a NIC.
	gpu hardware.GPU
	// instance is nil for a whole GPU.
	instance *hardware.Instance
	// nic is set for a NIC and for a pair.
	nic *hardware.NIC
}

// errNoRoom is the hardware's normal no.
var errNoRoom = errors.New("no room")

// create makes the device; errNoRoom if the hardware cannot now.
func (m *machine) create(ctx context.Context, name string) (made, error) {
	d, err := m.node.Device(name)
	if err != nil {
		return made{}, err
	}
	if d.NIC != nil {
		if err := m.take(*d.NIC); err != nil || d.GPU.PCI == "" {
			return made{nic: d.NIC}, err
		}
		out, err := m.createWhole(ctx, d.GPU)
		if err != nil {
			delete(m.busy, d.NIC.PCI)
		}
		out.nic = d.NIC
		return out, err
	}
	if d.Partition == nil {
		return m.createWhole(ctx, d.GPU)
	}
	in, err := m.driver.CreateGPUInstance(ctx, d.GPU.ID(), d.Partition.Profile.Enum, d.Partition.Placement)
	// MIG mode is off while the GPU is handed out whole.
	if errors.Is(err, hardware.ErrInsufficientResources) || errors.Is(err, hardware.ErrNotSupported) && m.whole[d.GPU.PCI] {
		return made{}, fmt.Errorf("create %s: %w: %w", name, errNoRoom, err)
	}
	return made{gpu: d.GPU, instance: &in}, err
}

// createWhole hands out a whole GPU, which MIG mode has to be off for. That two
// do not get the same one is nothing that hardware knows.
func (m *machine) createWhole(ctx context.Context, g hardware.GPU) (made, error) {
	if m.whole[g.PCI] {
		return made{}, fmt.Errorf("hand out %s: %w", g.DeviceName(), errNoRoom)
	}
	if g.MIG != nil {
		if err := m.driver.SetMIGMode(ctx, g.ID(), false); errors.Is(err, hardware.ErrInUse) {
			return made{}, fmt.Errorf("hand out %s: %w: %w", g.DeviceName(), errNoRoom, err)
		} else if err != nil {
			return made{}, err
		}
	}
	m.whole[g.PCI] = true
	return made{gpu: g}, nil
}

func (m *machine) destroy(ctx context.Context, d made) error {
	if d.nic != nil {
		delete(m.busy, d.nic.PCI)
	}
	if d.gpu.PCI == "" {
		return nil
	}
	if d.instance != nil {
		return m.driver.DestroyGPUInstance(ctx, d.gpu.ID(), d.instance.ID)
	}
	delete(m.whole, d.gpu.PCI)
	if d.gpu.MIG == nil {
		return nil
	}
	return m.driver.SetMIGMode(ctx, d.gpu.ID(), true)
}

// takes tells whether the device could be made now, by making it.
func (m *machine) takes(ctx context.Context, name string) (bool, error) {
	d, err := m.create(ctx, name)
	if errors.Is(err, errNoRoom) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, m.destroy(ctx, d)
}
