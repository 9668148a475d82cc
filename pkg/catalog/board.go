package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// nvlinkFile says how the GPUs of a server are joined; both 0 if they are not.
type nvlinkFile struct {
	PerGPU  int `json:"perGPU"`
	Version int `json:"version"`
}

// readBoard reads what the GPUs of a server have in common, and holds it against
// the GPUs, which have been read.
func (f serverFile) readBoard(r *reader, s *Server) {
	nvlink := need(r, "nvlink", f.NVLink)
	s.NVLinksPerGPU, s.NVLinkVersion = nvlink.PerGPU, nvlink.Version
	s.Fabric = need(r, "fabric", f.Fabric)
	s.NUMACPUs = need(r, "numaCPUs", f.NUMACPUs)
	s.NodesPerSocket = max(1, maybe(r, "nodesPerSocket", f.NodesPerSocket))
	if (nvlink.PerGPU == 0) != (nvlink.Version == 0) {
		r.fail("nvlink", "%d links of version %d: both or none", nvlink.PerGPU, nvlink.Version)
	}
	if s.Fabric.Registered && nvlink.PerGPU == 0 {
		r.fail("fabric", "there is none without NVLinks")
	}
	if !s.Fabric.Registered && s.Fabric != (Fabric{}) {
		r.fail("fabric", "has properties, but GPUs do not register with it")
	}
	for i, g := range s.GPUs {
		if nvlink.PerGPU > 0 && !g.Model.NVLink {
			r.fail("nvlink", "model %s has no NVLink", g.Model.Name)
		}
		if _, ok := s.NUMACPUs[g.NUMANode]; !ok && g.NUMANode >= 0 {
			r.fail(fmt.Sprintf("gpus[%d].numaNode", i), "numaCPUs has no node %d", g.NUMANode)
		}
	}
	checkCPUs(r, s.NUMACPUs)
}

// CPUs are the processors of a NUMA node, in the order of the list.
func (s Server) CPUs(node int) []int {
	cpus, err := parseCPUs(s.NUMACPUs[node])
	if err != nil {
		return nil // LoadServer has looked at all lists
	}
	return cpus
}

// Distance is how far one NUMA node is from another as the firmware says (SLIT): 10
// is a node from itself. The others are inferred: 12 within a socket, 21 across.
func (s Server) Distance(from, to int) int {
	switch {
	case from == to:
		return 10
	case s.Socket(from) == s.Socket(to):
		return 12
	}
	return 21
}

// Near are the other NUMA nodes of a node's socket, nearest to it of all: all of them,
// since the distances within a socket are equal.
func (s Server) Near(node int) []int {
	var out []int
	for _, other := range slices.Sorted(maps.Keys(s.NUMACPUs)) {
		if other != node && node >= 0 && s.Socket(other) == s.Socket(node) {
			out = append(out, other)
		}
	}
	return out
}

// Socket is the one that a NUMA node is in.
func (s Server) Socket(node int) int { return node / s.NodesPerSocket }

// checkCPUs wants readable lists, and each processor in one node only.
func checkCPUs(r *reader, nodes map[int]string) {
	owner := map[int]int{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		field := fmt.Sprintf("numaCPUs[%d]", node)
		cpus, err := parseCPUs(nodes[node])
		if err != nil {
			r.fail(field, "%v", err)
		}
		for _, cpu := range cpus {
			if other, taken := owner[cpu]; taken {
				r.fail(field, "processor %d is in node %d already", cpu, other)
				break
			}
			owner[cpu] = node
		}
	}
}

// parseCPUs reads the kernel's list format: "0-3,8".
func parseCPUs(list string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("parse list of processors %q: %w", list, err)
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, fmt.Errorf("parse list of processors %q: %w", list, err)
		}
		if to < from {
			return nil, fmt.Errorf("parse list of processors %q: %s runs backwards", list, part)
		}
		for cpu := from; cpu <= to; cpu++ {
			out = append(out, cpu)
		}
	}
	return out, nil
}
