package tree

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// interfaces is where the kernel has a link for each network interface.
const interfaces = "sys/class/net"

// Kinds of interfaces (include/uapi/linux/if_arp.h).
const (
	typeEthernet   = 1
	typeInfiniBand = 32
)

// network has the interface of the node itself, which is no PCI device here, and the
// routes.
func (t *Tree) network(p plan, s simhw.Snapshot) {
	p.netInterface("sys/devices/virtual", simhw.ManagementInterface, map[string]string{
		"address": "02:00:00:00:00:01", "type": fmt.Sprint(typeEthernet), "mtu": "1500", "operstate": "up", "speed": "1000", "dev_port": "0",
	})
	p.file("proc/1/net/route", routeTable(s))
}

// netInterface is an interface of the device with that directory.
func (p plan) netInterface(device, name string, attributes map[string]string) string {
	dir := filepath.Join(device, "net", name)
	p.files(dir, attributes)
	p.linkTo(filepath.Join(interfaces, name), dir)
	return dir
}

// routeTable is in the form of /proc/net/route (net/ipv4/fib_trie.c,
// fib_route_seq_show): addresses in the machine's byte order, lines padded to 127
// characters. A route needs an interface that is there.
func routeTable(s simhw.Snapshot) string {
	there := map[string]bool{simhw.ManagementInterface: true}
	for _, n := range s.PresentNICs() {
		there[n.Interface] = true
	}
	// RTF_UP, and RTF_GATEWAY with it; 10.0.0.1 is the gateway, 10.0.0.0/24 the link.
	const up, gateway = 0x1, 0x3
	var b strings.Builder
	line := func(text string) { fmt.Fprintf(&b, "%-127s\n", text) }
	route := func(name, destination, via string, flags, metric int, mask string) {
		line(fmt.Sprintf("%s\t%s\t%s\t%04X\t0\t0\t%d\t%s\t0\t0\t0", name, destination, via, flags, metric, mask))
	}
	line("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT")
	for i, name := range s.Network.DefaultRoutes {
		if there[name] {
			route(name, "00000000", "0100000A", gateway, 100*(i+1), "00000000")
		}
	}
	route(simhw.ManagementInterface, "0000000A", "00000000", up, 0, "00FFFFFF")
	return b.String()
}

// nicInterface is the interface of a NIC's function: Ethernet, or IP over InfiniBand
// with an address of 20 bytes whose last eight are the port's GUID (RFC 4391).
func (p plan) nicInterface(dir string, n simhw.NICState) {
	port := n.RDMA[0].Ports[0]
	attributes := map[string]string{
		"address": hardwareAddress(n.RDMA[0].NodeGUID), "type": fmt.Sprint(typeEthernet), "mtu": "1500",
		"operstate": "down", "speed": "-1", "dev_port": "0",
	}
	if port.LinkLayer == hardware.LinkLayerInfiniBand {
		attributes["address"] = "00:00:10:49:fe:80:00:00:00:00:00:00:" + octets(port.GUID)
		attributes["type"], attributes["mtu"] = fmt.Sprint(typeInfiniBand), "2044"
	}
	if port.State == hardware.PortActive {
		attributes["operstate"], attributes["speed"] = "up", fmt.Sprint(port.BitsPerSecond/1e6)
	}
	p.linkTo(filepath.Join(p.netInterface(dir, n.Interface, attributes), "device"), dir)
}

// octets writes a GUID byte by byte.
func octets(guid string) string {
	digits := strings.ReplaceAll(guid, ":", "")
	var out []string
	for i := 0; i+1 < len(digits); i += 2 {
		out = append(out, digits[i:i+2])
	}
	return strings.Join(out, ":")
}

// hardwareAddress is the one that a node GUID was made from: all but the two bytes in
// its middle.
func hardwareAddress(guid string) string {
	all := strings.Split(octets(guid), ":")
	return strings.Join(append(all[:3:3], all[5:]...), ":")
}
