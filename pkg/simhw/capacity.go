package simhw

import (
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// RemainingCapacity is how many more instances of the profile fit now.
func (e *Engine) RemainingCapacity(gpu, profileID int) (int, nvml.Return) {
	m, ret := e.migModel(gpu)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	p, ok := profileByID(m, profileID)
	g := e.Snapshot().GPUs[gpu]
	if !ok || !g.MIGEnabled {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	return remaining(m, g, p), nvml.SUCCESS
}

// remaining takes placements from the left; for intervals of one size that is
// optimal.
func remaining(m *catalog.MIG, g GPUState, p mig.Profile) int {
	made, n, end := 0, 0, 0
	for _, in := range g.Instances {
		if slices.Contains(m.Conflicts[p.Enum], in.ProfileEnum) {
			return 0
		}
		if in.ProfileEnum == p.Enum {
			made++
		}
	}
	for _, pl := range p.Placements {
		if pl.Start >= end && free(g, pl) {
			n, end = n+1, pl.End()
		}
	}
	return max(0, min(n, p.MaxInstances-made))
}

func free(g GPUState, pl mig.Placement) bool {
	return !slices.ContainsFunc(g.Instances, func(in InstanceState) bool { return in.Placement.Overlaps(pl) })
}
