package simhw

import (
	"fmt"
	"time"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// Virtualization is where the node runs.
type Virtualization string

// What nvmlDeviceGetVirtualizationMode tells of a bare machine, of a virtual one
// that has the GPU passed through, and of one that has a share of it (vGPU).
const (
	BareMetal   Virtualization = "none"
	Passthrough Virtualization = "passthrough"
	VGPU        Virtualization = "vgpu"
)

// Options are what a caller may choose about an engine.
type Options struct {
	// Seed makes the GPUs' UUIDs; nodes with different seeds have different
	// GPUs. Empty means the server's name.
	Seed string
	// StateFile keeps the state over restarts; empty means in memory only.
	StateFile string
	// Latency is how long changes take; the zero value means no time at all.
	Latency Latency
	// Virtualization is BareMetal if empty. In a Passthrough machine a MIG mode
	// that needs a reset pends for ever; a VGPU guest knows no MIG.
	Virtualization Virtualization
	// Minors are the GPUs' first device minors; nil means the catalog's.
	Minors []int
	// MinorsMove gives a GPU another minor whenever its MIG mode changes, which
	// nvmlDeviceSetMigMode may do.
	MinorsMove bool
	// Observe is called with every new state before the change that led to it
	// returns, and once by NewEngine; calls never overlap. May be nil.
	Observe func(Snapshot)
	// Sleep waits; nil means time.Sleep.
	Sleep func(time.Duration)
}

// complete fills in what the caller left out.
func (o *Options) complete(server catalog.Server) {
	if o.Seed == "" {
		o.Seed = server.Name
	}
	if o.Virtualization == "" {
		o.Virtualization = BareMetal
	}
	if o.Minors == nil {
		for _, g := range server.GPUs {
			o.Minors = append(o.Minors, g.Minor)
		}
	}
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	if o.Observe == nil {
		o.Observe = func(Snapshot) {}
	}
}

func (o *Options) check(server catalog.Server) error {
	switch o.Virtualization {
	case BareMetal, Passthrough, VGPU:
	default:
		return fmt.Errorf("virtualization %q is not known: use %s, %s or %s", o.Virtualization, BareMetal, Passthrough, VGPU)
	}
	if len(o.Minors) != len(server.GPUs) {
		return fmt.Errorf("%d device minors for the %d GPUs of %s: give one for each", len(o.Minors), len(server.GPUs), server.Name)
	}
	taken := map[int]bool{}
	for _, m := range o.Minors {
		if m < 0 || m >= MaxGPUs || taken[m] {
			return fmt.Errorf("device minor %d: each GPU needs its own, from 0 to %d", m, MaxGPUs-1)
		}
		taken[m] = true
	}
	return nil
}

// migCapable: no vGPU guest can partition its share of a GPU.
func (o *Options) migCapable(m catalog.Model) bool { return m.MIG != nil && o.Virtualization != VGPU }
