package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// PCI classes as sysfs has them (Linux, include/linux/pci_ids.h). NCCL goes by their
// beginning (topo.cc, kvDictPciClass).
const (
	classBridge     = "0x060400"
	classGPU        = "0x030200"
	classEthernet   = "0x020000"
	classInfiniBand = "0x020700"
)

// Topology is the topology file for whole GPUs and NICs, with the elements that NCCL
// dumps and reads (xml.cc): a system of cpus, each with a tree of pci elements that end
// in a gpu or in a nic. A switch is one pci element, its upstream port, because NCCL
// climbs two functions at a time (ncclTopoGetXmlFromSys).
//
// The rest NCCL completes from the container's own /sys: classes, links, processors
// (ncclTopoGetXmlFromSys, called for each GPU and each NIC that it uses), and under
// each nic the net (ncclTopoFillNet). A net that it finds in the file it takes as it
// is, with all that is above it, and fails where a link or a processor is then missing.
// So there is none: what a node's plugin knows of these can only be less than what NCCL
// finds. Nor are there rail, plane, guid and dev: NCCL refuses, or warns of, ones that
// differ from its own.
func Topology(gpus []hardware.GPU, nics []hardware.NIC) []byte {
	t := topology{root: &element{name: "system"}}
	t.root.set("version", "1")
	for _, g := range gpus {
		gpu := t.path(g.Place(), classGPU).child("gpu", "", "")
		if sm := computeCapability(g.CUDAComputeCapability); sm != "" {
			gpu.set("sm", sm)
		}
	}
	for _, n := range nics {
		t.path(n.Place(), classOf(n)).child("nic", "", "")
	}
	t.root.sort()
	var out strings.Builder
	t.root.write(&out, 0)
	return []byte(out.String())
}

type topology struct{ root *element }

// path is the pci element of a device; those above it are made as needed.
func (t *topology) path(p hardware.Place, class string) *element {
	at := t.processor(p.NUMANode)
	for _, address := range switches(p.Bridges) {
		at = t.pci(at, address, classBridge)
	}
	return t.pci(at, p.PCI, class)
}

// switches are the bridges that NCCL makes elements of, from the top: every second one,
// counted from the device.
func switches(bridges []hardware.PCIAddress) []hardware.PCIAddress {
	var out []hardware.PCIAddress
	for i := len(bridges) - 2; i >= 0; i -= 2 {
		out = append(out, bridges[i])
	}
	slices.Reverse(out)
	return out
}

// processor is the cpu element of a NUMA node; -1 is NCCL's word for unknown.
func (t *topology) processor(numaNode *int) *element {
	id := -1
	if numaNode != nil {
		id = max(id, *numaNode)
	}
	return t.root.child("cpu", "numaid", strconv.Itoa(id))
}

func (t *topology) pci(parent *element, address hardware.PCIAddress, class string) *element {
	e := parent.child("pci", "busid", string(address))
	e.set("class", class)
	return e
}

func classOf(n hardware.NIC) string {
	if len(n.RDMA) > 0 && len(n.RDMA[0].Ports) > 0 && n.RDMA[0].Ports[0].LinkLayer == hardware.LinkLayerInfiniBand {
		return classInfiniBand
	}
	return classEthernet
}

// computeCapability is NCCL's number for it, "90" for "9.0"; empty when unknown.
func computeCapability(version string) string {
	major, minor, ok := strings.Cut(version, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	if !ok || errX != nil || errY != nil {
		return ""
	}
	return strconv.Itoa(10*x + y)
}

// element of the file. NCCL's own parser reads it: no header, no empty lines, one
// space before each attribute.
type element struct {
	name       string
	attributes [][2]string
	children   []*element
}

func (e *element) set(key, value string) {
	for i := range e.attributes {
		if e.attributes[i][0] == key {
			e.attributes[i][1] = value
			return
		}
	}
	e.attributes = append(e.attributes, [2]string{key, value})
}

// child finds the element by name and, if key is not empty, that attribute, or makes it.
func (e *element) child(name, key, value string) *element {
	for _, c := range e.children {
		if c.name == name && (key == "" || slices.Contains(c.attributes, [2]string{key, value})) {
			return c
		}
	}
	c := &element{name: name}
	if key != "" {
		c.set(key, value)
	}
	e.children = append(e.children, c)
	return c
}

// sort orders by address or NUMA node, as NCCL orders what it finds, so that the order
// of a claim's devices does not matter.
func (e *element) sort() {
	slices.SortStableFunc(e.children, func(a, b *element) int { return cmp.Compare(a.key(), b.key()) })
	for _, c := range e.children {
		c.sort()
	}
}

func (e *element) key() string {
	if len(e.attributes) == 0 {
		return ""
	}
	return e.attributes[0][1]
}

var escape = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `"`, "&quot;")

func (e *element) write(out *strings.Builder, indent int) {
	fmt.Fprintf(out, "%*s<%s", indent, "", e.name)
	for _, a := range e.attributes {
		fmt.Fprintf(out, ` %s="%s"`, a[0], escape.Replace(a[1]))
	}
	if len(e.children) == 0 {
		out.WriteString("/>\n")
		return
	}
	out.WriteString(">\n")
	for _, c := range e.children {
		c.write(out, indent+2)
	}
	fmt.Fprintf(out, "%*s</%s>\n", indent, "", e.name)
}
