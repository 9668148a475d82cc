package plan

import (
	"slices"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Undo lists the indices of the steps to be undone, last first. A step without
// a result may still have happened: a crash can hit between the change and its
// record, so the first such step is in the list, too.
func (p Plan) Undo(done int) []int {
	var out []int
	for i := range p.Steps {
		if i <= done {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// Made is what a MIG slice consists of.
type Made struct {
	// GPUInstance is NVML's id.
	GPUInstance int
	// Compute are the compute instances in the order in which they were made.
	Compute []hardware.ComputeInstance
}

// Made is what the steps for a device have made so far, or what was there before
// and is handed out as it is.
func (p Plan) Made(results []Result, device int) Made {
	if s := p.Devices[device].MIG; s != nil && s.Existing != nil {
		return Made{GPUInstance: s.Existing.ID, Compute: s.Existing.Compute}
	}
	var made Made
	for i, r := range results {
		if i >= len(p.Steps) || p.Steps[i].Device != device {
			continue
		}
		switch p.Steps[i].Kind {
		case CreateGPUInstance:
			made.GPUInstance = r.GPUInstance
		case CreateComputeInstance:
			made.Compute = append(made.Compute, hardware.ComputeInstance{ID: r.ComputeInstance, UUID: r.UUID})
		}
	}
	return made
}

// Agrees tells whether the instance can be what was made: where both have compute
// instances, one of them is the same. Others are somebody else's, made after ours
// were gone.
func (m Made) Agrees(inst hardware.Instance) bool {
	if len(m.Compute) == 0 || len(inst.Compute) == 0 {
		return true
	}
	return slices.ContainsFunc(m.Compute, func(c hardware.ComputeInstance) bool {
		return slices.ContainsFunc(inst.Compute, func(live hardware.ComputeInstance) bool { return live.UUID == c.UUID })
	})
}

// IDs are the ids of the compute instances.
func (m Made) IDs() []int {
	var out []int
	for _, c := range m.Compute {
		out = append(out, c.ID)
	}
	return out
}

// UUIDs are those of the compute instances.
func (m Made) UUIDs() []string {
	var out []string
	for _, c := range m.Compute {
		out = append(out, c.UUID)
	}
	return out
}
