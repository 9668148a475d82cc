package node

import (
	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/nccl"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// nccl is what NCCL needs of a claim: its NICs by name, and how they are connected to
// its GPUs.
func (m *model) nccl(p plan.Plan) (env []string, files []cdi.File) {
	gpus, nics := m.devices(p)
	env = nccl.Env(nics)
	if len(env) == 0 {
		return nil, nil
	}
	return env, []cdi.File{{Path: nccl.TopologyPath, Content: nccl.Topology(gpus, nics)}}
}

// devices are the whole GPUs and the NICs of a claim.
func (m *model) devices(p plan.Plan) (gpus []hardware.GPU, nics []hardware.NIC) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range p.Devices {
		if g, ok := m.node.GPU(d.GPU.PCI); ok && d.MIG == nil {
			gpus = append(gpus, g)
		}
		if d.NIC == nil {
			continue
		}
		if n, ok := m.node.NIC(d.NIC.PCI); ok {
			nics = append(nics, n)
		}
	}
	return gpus, nics
}
