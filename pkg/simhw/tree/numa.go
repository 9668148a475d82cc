package tree

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// numa has what the kernel shows of NUMA nodes and processors.
func (t *Tree) numa(p plan) {
	const nodes, cpus = "sys/devices/system/node", "sys/devices/system/cpu"
	known := slices.Sorted(maps.Keys(t.Server.NUMACPUs))
	for _, node := range known {
		var distances []string
		for _, other := range known {
			distances = append(distances, fmt.Sprint(t.Server.Distance(node, other)))
		}
		p.files(filepath.Join(nodes, fmt.Sprintf("node%d", node)), map[string]string{
			"cpulist": t.Server.NUMACPUs[node], "distance": strings.Join(distances, " "),
		})
		for _, cpu := range t.Server.CPUs(node) {
			p.file(filepath.Join(cpus, fmt.Sprintf("cpu%d/topology/physical_package_id", cpu)), fmt.Sprintln(t.Server.Socket(node)))
		}
	}
	if len(known) > 0 {
		p.file(filepath.Join(nodes, "online"), fmt.Sprintf("0-%d\n", known[len(known)-1]))
	}
}

// localCPUs are the processors beside a device: all where its node is not known.
func (t *Tree) localCPUs(numaNode int) string {
	if list, ok := t.Server.NUMACPUs[numaNode]; ok {
		return list
	}
	var all []string
	for _, node := range slices.Sorted(maps.Keys(t.Server.NUMACPUs)) {
		all = append(all, t.Server.NUMACPUs[node])
	}
	return strings.Join(all, ",")
}
