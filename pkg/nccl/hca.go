// Package nccl says to NCCL, NVIDIA's library for communication between GPUs, which
// NICs a claim has and how they are connected to its GPUs. It is pure; what NCCL
// reads and how is from its public source, https://github.com/NVIDIA/nccl.
package nccl

import (
	"fmt"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// TopologyPath is where a container sees the topology file.
const TopologyPath = "/run/cleave/nccl-topology.xml"

// Env is the environment for a claim's NICs, as "NAME=value": NCCL_IB_HCA and, for a
// claim that has a topology file, NCCL_TOPO_FILE. Without NICs it is empty.
func Env(nics []hardware.NIC) []string {
	hca := HCA(nics)
	if hca == "" {
		return nil
	}
	return []string{"NCCL_IB_HCA=" + hca, "NCCL_TOPO_FILE=" + TopologyPath}
}

// HCA is the value of NCCL_IB_HCA for exactly these NICs, "=mlx5_0:1,mlx5_1:1": the
// equals sign makes NCCL compare whole names (src/misc/utils.cc, parseStringList and
// matchIfList), since otherwise mlx5_1 would also stand for mlx5_10. Of each NIC it has
// all ports of the RDMA device for traffic; NCCL uses those with a link. It is empty if
// there are none.
func HCA(nics []hardware.NIC) string {
	var ports []string
	for _, n := range nics {
		if len(n.RDMA) == 0 {
			continue
		}
		for _, p := range n.RDMA[0].Ports {
			ports = append(ports, fmt.Sprintf("%s:%d", n.RDMA[0].Name, p.Number))
		}
	}
	if len(ports) == 0 {
		return ""
	}
	return "=" + strings.Join(ports, ",")
}
