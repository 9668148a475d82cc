package simhw

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// What speaks against a change to a slot.
var (
	errNoSlot = errors.New("there is no such slot")
	errEmpty  = errors.New("the slot is empty")
	errTaken  = errors.New("there is a GPU in the slot already")
)

// gpuUUID is the UUID of the nth GPU in a slot.
func gpuUUID(seed string, slot, generation int) string {
	if generation > 0 {
		seed = fmt.Sprintf("%s, replacement %d", seed, generation)
	}
	return catalog.UUID(seed, slot)
}

// Lose makes a GPU fall off the bus: it is counted and has its files, and every
// call about it is GPU_IS_LOST until the node reboots.
func (e *Engine) Lose(gpu int) error {
	return e.slot(gpu, func(s *Snapshot, g *GPUState) error {
		if g.Absent {
			return errEmpty
		}
		g.Lost = true
		return nil
	})
}

// Unplug takes a GPU out while the node runs. All on it ends; the other GPUs keep
// their addresses and minors.
func (e *Engine) Unplug(gpu int) error {
	return e.slot(gpu, func(s *Snapshot, g *GPUState) error {
		if g.Absent {
			return errEmpty
		}
		g.clear()
		g.Absent, g.Lost, g.MIGEnabled, g.MIGPending = true, false, e.survives(g), false
		return nil
	})
}

// survives is the MIG mode that the GPU itself remembers without power.
func (e *Engine) survives(g *GPUState) bool {
	m := e.server.GPUs[g.Index].Model.MIG
	return m != nil && m.ModeNeedsReset && g.MIGEnabled
}

// Plug puts the GPU back that was in the slot.
func (e *Engine) Plug(gpu int) error {
	return e.slot(gpu, func(s *Snapshot, g *GPUState) error {
		if !g.Absent {
			return errTaken
		}
		g.Absent = false
		return nil
	})
}

// Replace puts another GPU of the same model into the slot: the address stays,
// the UUID is new.
func (e *Engine) Replace(gpu int) error {
	return e.slot(gpu, func(s *Snapshot, g *GPUState) error {
		g.clear()
		g.Health, g.Settings = Health{}, Settings{}
		g.Generation++
		g.UUID = gpuUUID(s.Seed, gpu, g.Generation)
		g.Absent, g.Lost, g.MIGEnabled, g.MIGPending = false, false, false, false
		return nil
	})
}

// slot changes one slot, or nothing if that fails.
func (e *Engine) slot(gpu int, change func(*Snapshot, *GPUState) error) error {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return fmt.Errorf("GPU %d: %w; slots go from 0 to %d", gpu, errNoSlot, len(e.server.GPUs)-1)
	}
	e.changing[gpu].Lock()
	defer e.changing[gpu].Unlock()
	// Nobody else changes this slot now, so what a trial says still holds later.
	trial := e.moment().Snapshot.clone()
	if err := change(trial, &trial.GPUs[gpu]); err != nil {
		return fmt.Errorf("GPU %d: %w", gpu, err)
	}
	return e.commit(func(s *Snapshot) { _ = change(s, &s.GPUs[gpu]) })
}
