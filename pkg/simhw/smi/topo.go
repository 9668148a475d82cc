package smi

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const legend = `
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
`

var levels = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL: "PIX", nvml.TOPOLOGY_SINGLE: "PIX", nvml.TOPOLOGY_MULTIPLE: "PXB",
	nvml.TOPOLOGY_HOSTBRIDGE: "PHB", nvml.TOPOLOGY_NODE: "NODE", nvml.TOPOLOGY_SYSTEM: "SYS",
}

// maxCPUs and maxNodes bound the sets that are asked for.
const maxCPUs, maxNodes = 4096, 64

// topology is what topo -m prints.
func topology(c *client) error {
	gpus, err := c.gpus()
	if err != nil {
		return err
	}
	nics := c.nics()
	links := map[int]int{}
	for _, g := range gpus {
		if links[g.index], err = switchLinks(g); err != nil {
			return err
		}
		fmt.Fprintf(&c.out, "\tGPU%d", g.index)
	}
	for i := range nics {
		fmt.Fprintf(&c.out, "\tNIC%d", i)
	}
	c.out.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	var places []hardware.Place
	for _, a := range gpus {
		fmt.Fprintf(&c.out, "GPU%d", a.index)
		for _, b := range gpus {
			text, err := connection(a, b, min(links[a.index], links[b.index]))
			if err != nil {
				return err
			}
			c.out.WriteString("\t" + text)
		}
		at, ret := address(a)
		if ret != nvml.SUCCESS {
			return ret
		}
		place := c.place(at)
		places = append(places, place)
		for _, nic := range nics {
			fmt.Fprintf(&c.out, "\t%s", hardware.DistanceBetween(place, nic.place))
		}
		if err := c.affinities(a); err != nil {
			return err
		}
	}
	c.nicRows(places, nics)
	c.out.WriteString(legend)
	c.nicLegend(nics)
	return nil
}

// affinities end a GPU's row.
func (c *client) affinities(g gpu) error {
	cpus, err := affinity(g.GetCpuAffinity(maxCPUs))
	if err != nil {
		return err
	}
	nodes, err := affinity(g.GetMemoryAffinity(maxNodes, nvml.AFFINITY_SCOPE_NODE))
	if err != nil {
		return err
	}
	fmt.Fprintf(&c.out, "\t%s\t%s\t\tN/A\n", cpus, nodes)
	return nil
}

// connection is by as many NVLinks as both have to switches, if they have any.
func connection(a, b gpu, links int) (string, error) {
	if a.index == b.index {
		return " X ", nil
	}
	if links > 0 {
		return fmt.Sprintf("NV%d", links), nil
	}
	level, ret := a.GetTopologyCommonAncestor(b.Device)
	if ret != nvml.SUCCESS {
		return "", ret
	}
	return levels[level], nil
}

func switchLinks(g gpu) (int, error) {
	n := 0
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := g.GetNvLinkState(link)
		if err := known(ret); err != nil {
			return 0, err
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		kind, ret := g.GetNvLinkRemoteDeviceType(link)
		if err := known(ret); err != nil {
			return 0, err
		}
		if ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			n++
		}
	}
	return n, nil
}

// affinity writes a set in the kernel's form, "0-3,8".
func affinity(words []uint, ret nvml.Return) (string, error) {
	if err := known(ret); err != nil {
		return "", err
	}
	if ret != nvml.SUCCESS {
		return "N/A", nil
	}
	has := func(n int) bool {
		return n/bits.UintSize < len(words) && words[n/bits.UintSize]>>(n%bits.UintSize)&1 == 1
	}
	var parts []string
	for n := 0; n < len(words)*bits.UintSize; n++ {
		if !has(n) {
			continue
		}
		first := n
		for has(n + 1) {
			n++
		}
		if first == n {
			parts = append(parts, fmt.Sprint(n))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, n))
		}
	}
	return strings.Join(parts, ","), nil
}
