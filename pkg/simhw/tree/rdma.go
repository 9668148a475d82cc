package tree

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// gidSlots is how long a port's table of GIDs is; real ones are longer.
const gidSlots = 4

// Ports' capabilities as ibstat prints them, for InfiniBand and Ethernet.
const (
	infinibandCapabilities = "0xa651e848"
	ethernetCapabilities   = "0x00010000"
)

// noGID is an empty slot of the table.
const noGID = "0000:0000:0000:0000:0000:0000:0000:0000"

// rdmaDevice is one RDMA device of a function, with its ports and nodes.
func (t *Tree) rdmaDevice(p plan, function string, n simhw.NICState, index int, image string) {
	d := n.RDMA[index]
	dir := filepath.Join(function, "infiniband", d.Name)
	p.files(dir, map[string]string{
		"node_guid": d.NodeGUID, "sys_image_guid": image, "node_type": "1: CA", "node_desc": t.Server.Name + " " + d.Name,
		"fw_ver": d.FirmwareVersion, "hca_type": d.HCAType, "board_id": d.BoardID, "hw_rev": "0",
	})
	p.linkTo(filepath.Join(dir, "device"), function)
	p.linkTo(filepath.Join("sys/class/infiniband", d.Name), dir)
	for _, port := range d.Ports {
		p.port(filepath.Join(dir, "ports", fmt.Sprint(port.Number)), n, index, port)
	}
	if d.Verbs.Path != "" {
		t.rdmaNode(p, function, "infiniband_verbs", d.Verbs, 0o666, map[string]string{"ibdev": d.Name, "abi_version": cardVersion})
	}
	for i, node := range d.Management {
		t.rdmaNode(p, function, "infiniband_mad", node, 0o600, map[string]string{"ibdev": d.Name, "port": fmt.Sprint(d.Ports[i].Number)})
	}
	for i, node := range d.Subnet {
		t.rdmaNode(p, function, "infiniband_mad", node, 0o600, map[string]string{"ibdev": d.Name, "port": fmt.Sprint(d.Ports[i].Number)})
	}
}

// rdmaNode is a device node, with what its class shows of it.
func (t *Tree) rdmaNode(p plan, function, class string, node hardware.DeviceNode, mode fs.FileMode, attributes map[string]string) {
	name := filepath.Base(node.Path)
	dir := filepath.Join(function, class, name)
	attributes["dev"] = fmt.Sprintf("%d:%d", t.Majors.InfiniBand, node.Minor)
	p.files(dir, attributes)
	p.linkTo(filepath.Join(dir, "device"), function)
	p.linkTo(filepath.Join("sys/class", class, name), dir)
	p.node(strings.TrimPrefix(node.Path, "/"), t.Majors.InfiniBand, int(node.Minor), mode)
}

// port is one of a device's.
func (p plan) port(dir string, n simhw.NICState, device int, port hardware.RDMAPort) {
	d := n.RDMA[device]
	capabilities, lid, manager := ethernetCapabilities, 0, 0
	if port.LinkLayer == hardware.LinkLayerInfiniBand {
		capabilities, lid = infinibandCapabilities, 0xffff // no one has given it one
		if port.State == hardware.PortActive || port.State == "ARMED" {
			lid = 2 + n.Card<<8 + n.Function
		}
		if port.HasSubnetManager {
			manager = 1
		}
	}
	p.files(dir, map[string]string{
		"link_layer": port.LinkLayer,
		"state":      numbered(simhw.PortStates(), port.State),
		"phys_state": numbered(simhw.PhysicalStates(), port.PhysicalState),
		"rate":       rate(port.BitsPerSecond, d.Verbs.Path == ""),
		"lid":        fmt.Sprintf("0x%x", lid), "sm_lid": fmt.Sprintf("0x%x", manager), "lid_mask_count": "0", "sm_sl": "0",
		"cap_mask": capabilities,
	})
	p.files(filepath.Join(dir, "pkeys"), map[string]string{"0": "0xffff"})
	p.gids(dir, n.Interface, port)
	p.counters(dir, n.Downed(d.Name, port.Number), d.Verbs.Path != "")
}

// numbered is a state in the kernel's form, "4: ACTIVE".
func numbered(states []string, state string) string {
	return fmt.Sprintf("%d: %s", slices.Index(states, state), state)
}

// laneRates are what one lane carries, in Mbit/s.
var laneRates = map[int64]string{2500: "SDR", 5000: "DDR", 10000: "QDR", 25000: "EDR", 50000: "HDR", 100000: "NDR", 200000: "XDR"}

// rate is in the kernel's form, "400 Gb/sec (4X NDR)". Links have four lanes, a plane
// of a link has one (drivers/infiniband/core/sysfs.c, rate_show).
func rate(bitsPerSecond int64, plane bool) string {
	lanes := int64(4)
	if plane {
		lanes = 1
	}
	text := fmt.Sprintf("%d Gb/sec", bitsPerSecond/1e9)
	if name, ok := laneRates[bitsPerSecond/1e6/lanes]; ok {
		return fmt.Sprintf("%s (%dX %s)", text, lanes, name)
	}
	return text
}

// gids is the table of a port's addresses. On Ethernet each is there twice, for both
// versions of RoCE, and all are the interface's: they go with it. The attributes of
// an empty slot cannot be read, here because they are not there.
func (p plan) gids(dir, netdev string, port hardware.RDMAPort) {
	const linkLocal = "fe80:0000:0000:0000:"
	used := []string{"IB/RoCE v1"}
	if port.LinkLayer == hardware.LinkLayerEthernet {
		if used = append(used, "RoCE v2"); netdev == "" {
			used = nil
		}
	}
	for slot := range gidSlots {
		gid := noGID
		if slot < len(used) {
			gid = linkLocal + port.GUID
			p.file(filepath.Join(dir, "gid_attrs/types", fmt.Sprint(slot)), used[slot]+"\n")
			if netdev != "" {
				p.file(filepath.Join(dir, "gid_attrs/ndevs", fmt.Sprint(slot)), netdev+"\n")
			}
		}
		p.file(filepath.Join(dir, "gids", fmt.Sprint(slot)), gid+"\n")
	}
}

// Counters that are always 0 here: some of those that all ports have, and of a
// driver's own (Documentation/ABI/stable/sysfs-class-infiniband).
var (
	portCounters = []string{
		"port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_xmit_data", "port_xmit_discards", "port_xmit_packets",
		"port_xmit_wait", "symbol_error",
	}
	driverCounters = []string{"np_cnp_sent", "out_of_sequence", "packet_seq_err", "rp_cnp_handled"}
)

func (p plan) counters(dir string, linkDowned int, traffic bool) {
	for _, name := range portCounters {
		p.file(filepath.Join(dir, "counters", name), "0\n")
	}
	p.file(filepath.Join(dir, "counters/link_downed"), fmt.Sprintln(linkDowned))
	if !traffic {
		return
	}
	for _, name := range driverCounters {
		p.file(filepath.Join(dir, "hw_counters", name), "0\n")
	}
	p.file(filepath.Join(dir, "hw_counters/lifespan"), "10\n") // milliseconds
}
