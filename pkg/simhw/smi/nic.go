package smi

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// nic is an RDMA device, which is what nvidia-smi calls a NIC.
type nic struct {
	name  string
	place hardware.Place
}

// nics are those that sysfs shows, in the order of their names with numbers as
// numbers. What cannot be read is not there.
func (c *client) nics() []nic {
	const class = "class/infiniband"
	entries, err := os.ReadDir(filepath.Join(c.sys, class))
	if err != nil {
		return nil
	}
	var out []nic
	for _, e := range entries {
		device, err := filepath.EvalSymlinks(filepath.Join(c.sys, class, e.Name(), "device"))
		if err == nil {
			out = append(out, nic{e.Name(), c.place(filepath.Base(device))})
		}
	}
	slices.SortFunc(out, func(a, b nic) int {
		textA, numberA := splitNumber(a.name)
		textB, numberB := splitNumber(b.name)
		return cmp.Or(cmp.Compare(textA, textB), cmp.Compare(numberA, numberB))
	})
	return out
}

// splitNumber takes the digits off the end of a name.
func splitNumber(name string) (text string, number int) {
	text = strings.TrimRight(name, "0123456789")
	number, _ = strconv.Atoi(name[len(text):]) // 0 without digits
	return text, number
}

// place is where a PCI device is, by the path that its link leads to. A device that
// sysfs does not have is nowhere.
func (c *client) place(address string) hardware.Place {
	pci, err := hardware.ParsePCIAddress(address)
	if err != nil {
		return hardware.Place{}
	}
	out := hardware.Place{PCI: pci}
	link := filepath.Join(c.sys, "bus/pci/devices", string(pci))
	target, err := os.Readlink(link)
	if err != nil {
		return out
	}
	_, path, _ := strings.Cut(target, "/devices/")
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		bridge, err := hardware.ParsePCIAddress(part)
		switch {
		case i == 0:
			out.PCIeRoot = part
		case err == nil:
			out.Bridges = append(out.Bridges, bridge)
		}
	}
	raw, err := os.ReadFile(filepath.Join(link, "numa_node"))
	if node, wrong := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && wrong == nil && node >= 0 {
		out.NUMANode = &node
	}
	return out
}

// nicRows are the lower part of the matrix.
func (c *client) nicRows(gpus []hardware.Place, nics []nic) {
	for i, a := range nics {
		fmt.Fprintf(&c.out, "NIC%d", i)
		for _, b := range gpus {
			fmt.Fprintf(&c.out, "\t%s", hardware.DistanceBetween(a.place, b))
		}
		for j, b := range nics {
			if i == j {
				c.out.WriteString("\t X ")
			} else {
				fmt.Fprintf(&c.out, "\t%s", hardware.DistanceBetween(a.place, b.place))
			}
		}
		c.out.WriteString("\t\t\t\t\n")
	}
}

func (c *client) nicLegend(nics []nic) {
	if len(nics) == 0 {
		return
	}
	c.out.WriteString("\nNIC Legend:\n\n")
	for i, n := range nics {
		fmt.Fprintf(&c.out, "  NIC%d: %s\n", i, n.name)
	}
	c.out.WriteString("\n")
}
