package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// ExclusiveRDMA tells whether RDMA devices belong to one network namespace each. In
// the other mode, the kernel's default, all namespaces share them
// (rdma-system(8), "netns"; the parameter netns_mode of the module ib_core is Y for
// shared). A kernel without RDMA is not exclusive.
func (t Tree) ExclusiveRDMA() (bool, error) {
	const parameter = "module/ib_core/parameters/netns_mode"
	mode, err := t.read(parameter)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read RDMA mode: %w", err)
	}
	switch mode {
	case "Y", "1":
		return false, nil
	case "N", "0":
		return true, nil
	default:
		return false, fmt.Errorf("read RDMA mode: %s is %q, want Y or N", parameter, mode)
	}
}

// rdmaDevices reads all RDMA devices of a function, those with a verbs node first:
// the subnet management device of an XDR card has none.
func (t Tree) rdmaDevices(addr hardware.PCIAddress, names []string, nodes rdmaNodes) ([]hardware.RDMADevice, error) {
	var out []hardware.RDMADevice
	for _, name := range names {
		d, err := t.rdmaDevice(path.Join(device(addr), "infiniband", name))
		if err != nil {
			return nil, fmt.Errorf("read RDMA device %s: %w", name, err)
		}
		d.Verbs = nodes.verbs[name]
		d.Management, d.Subnet = nodes.management[name].inOrder(), nodes.subnet[name].inOrder()
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b hardware.RDMADevice) int {
		switch forTraffic := a.Verbs.Path != ""; {
		case forTraffic == (b.Verbs.Path != ""):
			// mlx5_2 before mlx5_10.
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		case forTraffic:
			return -1
		default:
			return 1
		}
	})
	if out[0].Verbs.Path == "" {
		return nil, fmt.Errorf("RDMA device %s has no verbs node (is the module ib_uverbs loaded?)", out[0].Name)
	}
	return out, nil
}

// rdmaDevice reads one device without its nodes.
func (t Tree) rdmaDevice(dir string) (hardware.RDMADevice, error) {
	// What a device may not say of itself: it does without.
	optional := func(name string) string {
		v, _ := t.read(path.Join(dir, name))
		return v
	}
	d := hardware.RDMADevice{
		Name: path.Base(dir), NodeGUID: guid(optional("node_guid")),
		FirmwareVersion: optional("fw_ver"), BoardID: optional("board_id"), HCAType: optional("hca_type"),
	}
	names, err := t.list(path.Join(dir, "ports"))
	if err != nil {
		return hardware.RDMADevice{}, err
	}
	for _, name := range names {
		number, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := t.port(path.Join(dir, "ports", name))
		if err != nil {
			return hardware.RDMADevice{}, fmt.Errorf("port %d: %w", number, err)
		}
		p.Number = number
		d.Ports = append(d.Ports, p)
	}
	if len(d.Ports) == 0 {
		return hardware.RDMADevice{}, errors.New("no ports")
	}
	slices.SortFunc(d.Ports, func(a, b hardware.RDMAPort) int { return cmp.Compare(a.Number, b.Number) })
	return d, nil
}

// port reads one port, but for its number. The forms of the files are those of the
// kernel's Documentation/ABI/stable/sysfs-class-infiniband.
func (t Tree) port(dir string) (hardware.RDMAPort, error) {
	var err error
	need := func(name string) string {
		v, readErr := t.read(path.Join(dir, name))
		if readErr == nil && v == "" {
			readErr = fmt.Errorf("%s is empty", name)
		}
		err = errors.Join(err, readErr)
		return v
	}
	p := hardware.RDMAPort{
		LinkLayer: need("link_layer"),
		State:     word(need("state")), PhysicalState: word(need("phys_state")),
	}
	rate := need("rate")
	if err != nil {
		return hardware.RDMAPort{}, err
	}
	if p.BitsPerSecond, err = bitsPerSecond(rate); err != nil {
		return hardware.RDMAPort{}, err
	}
	if gid, err := t.read(path.Join(dir, "gids/0")); err == nil && len(gid) == len("0000:0000:0000:0000:0000:0000:0000:0000") {
		p.GUID = guid(gid[len(gid)/2+1:])
	}
	if p.LinkLayer != hardware.LinkLayerInfiniBand {
		return p, nil
	}
	manager, err := t.read(path.Join(dir, "sm_lid"))
	if err != nil {
		return hardware.RDMAPort{}, err
	}
	lid, err := strconv.ParseUint(manager, 0, 16)
	if err != nil {
		return hardware.RDMAPort{}, fmt.Errorf("sm_lid: %w", err)
	}
	p.HasSubnetManager = lid != 0
	return p, nil
}

// word is a state without its number: "4: ACTIVE".
func word(state string) string {
	if _, after, ok := strings.Cut(state, ": "); ok {
		return after
	}
	return state
}

// bitsPerSecond reads "400 Gb/sec (4X NDR)" and "2.5 Gb/sec (1X SDR)".
func bitsPerSecond(rate string) (int64, error) {
	number, unit, _ := strings.Cut(rate, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || v > 1e6 || !strings.HasPrefix(unit, "Gb/sec") {
		return 0, fmt.Errorf("rate is %q, want one like 400 Gb/sec (4X NDR)", rate)
	}
	return int64(v * 1e9), nil
}

// guid is empty for one that is not set.
func guid(s string) string {
	if strings.Trim(s, "0:") == "" {
		return ""
	}
	return s
}
