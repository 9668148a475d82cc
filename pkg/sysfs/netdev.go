package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// netdev is a network interface of a PCI function.
type netdev struct {
	name string
	// port is its port on the function, from 0.
	port int
	// master is the bond, bridge or other interface that it is a part of.
	master string
}

// representor is what the physical function has for the switch port of a virtual
// function or a subfunction, "pf0vf3" or "c1pf0sf88" (kernel:
// Documentation/networking/devlink/devlink-port.rst). The host's bridges have them
// as their ports on behalf of others.
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// interfaces are the network interfaces of a function without representors, the
// first port's first. There are none where they are in another network namespace.
func (t Tree) interfaces(addr hardware.PCIAddress) ([]netdev, error) {
	dir := path.Join(device(addr), "net")
	names, err := t.list(dir)
	if err != nil {
		return nil, fmt.Errorf("list its network interfaces: %w", err)
	}
	var out []netdev
	for _, name := range names {
		// Most drivers have no name for the port and fail to read.
		if port, err := t.read(path.Join(dir, name, "phys_port_name")); err == nil && representor.MatchString(port) {
			continue
		}
		i := netdev{name: name}
		if port, err := t.read(path.Join(dir, name, "dev_port")); err == nil {
			i.port, _ = strconv.Atoi(port)
		}
		master, err := os.Readlink(path.Join(t.root, dir, name, "master"))
		if err == nil {
			i.master = path.Base(master)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find what its interface %s is part of: %w", name, err)
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b netdev) int { return cmp.Compare(a.port, b.port) })
	return out, nil
}

// uplinks are the interfaces over which the machine has a default route, with those
// below them (the members of a bond, the ports of a bridge, a VLAN's interface).
func (t Tree) uplinks() (map[string]bool, error) {
	if t.proc == "" {
		return nil, nil
	}
	todo, err := DefaultRouteInterfaces(t.proc)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		links, err := t.list(path.Join("class/net", name))
		if err != nil {
			return nil, fmt.Errorf("find the interfaces below %s: %w", name, err)
		}
		for _, link := range links {
			if lower, ok := strings.CutPrefix(link, "lower_"); ok {
				todo = append(todo, lower)
			}
		}
	}
	return seen, nil
}
