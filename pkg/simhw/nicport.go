package simhw

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// PortStates are the kernel's words for the logical states of a port, by number
// (drivers/infiniband/core/sysfs.c).
func PortStates() []string {
	return []string{"NOP", "DOWN", "INIT", "ARMED", hardware.PortActive, "ACTIVE_DEFER"}
}

// PhysicalStates are the kernel's words for the physical ones, by number (as before,
// phys_state_to_str).
func PhysicalStates() []string {
	return []string{"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test"}
}

// PortChange is what happens to ports of an RDMA device; what is not set follows
// from the state, or stays.
type PortChange struct {
	// Port is the number of the one concerned; 0 is all.
	Port int `json:"port,omitempty"`
	// State is one of PortStates. Without a link a port is DOWN, until a subnet
	// manager has configured it INIT, then ARMED and ACTIVE.
	State string `json:"state,omitempty"`
	// PhysicalState is one of PhysicalStates.
	PhysicalState string `json:"physicalState,omitempty"`
	// GigabitsPerSecond is the rate.
	GigabitsPerSecond int `json:"gigabitsPerSecond,omitempty"`
	// SubnetManager tells whether the port knows one (sm_lid).
	SubnetManager *bool `json:"subnetManager,omitempty"`
}

func (c PortChange) check() error {
	if c.State != "" && !slices.Contains(PortStates(), c.State) {
		return fmt.Errorf("state %q of a port is not known: use one of %s", c.State, strings.Join(PortStates(), ", "))
	}
	if c.PhysicalState != "" && !slices.Contains(PhysicalStates(), c.PhysicalState) {
		return fmt.Errorf("physical state %q of a port is not known: use one of %s", c.PhysicalState, strings.Join(PhysicalStates(), ", "))
	}
	if c.GigabitsPerSecond < 0 {
		return fmt.Errorf("rate of a port is %d Gb/s: it must not be negative", c.GigabitsPerSecond)
	}
	return nil
}

// SetPort changes ports of a NIC's RDMA device: of the one that is named, else of
// the first.
func (e *Engine) SetPort(nic string, c PortChange) error {
	if err := c.check(); err != nil {
		return err
	}
	return e.changeNIC(nic, func(_ *Snapshot, n *NICState, device int) error { return e.changePorts(n, device, c) })
}

// changePorts applies a change to one port or all of a device.
func (e *Engine) changePorts(n *NICState, device int, c PortChange) error {
	d := &n.RDMA[device]
	met := false
	for i := range d.Ports {
		if c.Port != 0 && c.Port != d.Ports[i].Number {
			continue
		}
		met = true
		before := d.Ports[i].State
		if err := c.apply(&d.Ports[i], e.fullRate(*n, device)); err != nil {
			return err
		}
		if before != "DOWN" && d.Ports[i].State == "DOWN" {
			if n.LinkDowned == nil {
				n.LinkDowned = map[string]int{}
			}
			n.LinkDowned[portKey(d.Name, d.Ports[i].Number)]++
		}
	}
	if !met {
		return fmt.Errorf("%s has no port %d: it has %d", d.Name, c.Port, len(d.Ports))
	}
	return nil
}

// portKey is a port's name in LinkDowned.
func portKey(device string, port int) string { return fmt.Sprintf("%s/%d", device, port) }

// Downed is how often a port's link has gone down.
func (n NICState) Downed(device string, port int) int { return n.LinkDowned[portKey(device, port)] }

// fullRate is a port's in bit/s when its link is up.
func (e *Engine) fullRate(n NICState, device int) int64 {
	m := e.server.NICs[n.Card].Model
	rate := int64(m.GigabitsPerSecond) * 1e9
	if device > 0 {
		rate /= int64(m.Planes)
	}
	return rate
}

// downRate is what the kernel shows of a port without a link, in bit/s: the lowest
// of all for InfiniBand, and what the driver starts from for Ethernet (ibstat;
// drivers/infiniband/hw/mlx5/main.c, mlx5_query_port_roce).
func downRate(layer string) int64 {
	if layer == hardware.LinkLayerEthernet {
		return 40e9
	}
	return 10e9
}

func (c PortChange) apply(p *hardware.RDMAPort, full int64) error {
	ethernet := p.LinkLayer == hardware.LinkLayerEthernet
	if ethernet && (c.State == "INIT" || c.State == "ARMED" || c.SubnetManager != nil && *c.SubnetManager) {
		return fmt.Errorf("port %d is an Ethernet port, which no subnet manager configures: it is ACTIVE or DOWN", p.Number)
	}
	switch c.State {
	case "":
	case "NOP", "DOWN":
		p.PhysicalState, p.BitsPerSecond, p.HasSubnetManager = "Polling", downRate(p.LinkLayer), false
	case "INIT":
		p.PhysicalState, p.BitsPerSecond, p.HasSubnetManager = "LinkUp", full, false
	default:
		p.PhysicalState, p.BitsPerSecond, p.HasSubnetManager = "LinkUp", full, !ethernet
	}
	if c.State != "" {
		p.State = c.State
	}
	if c.PhysicalState != "" {
		p.PhysicalState = c.PhysicalState
	}
	if c.GigabitsPerSecond != 0 {
		p.BitsPerSecond = int64(c.GigabitsPerSecond) * 1e9
	}
	if c.SubnetManager != nil {
		p.HasSubnetManager = *c.SubnetManager
	}
	return nil
}

// Flap lets a port's link go down and come back so many times, and stay down and up
// for that long in between. It returns when all is over.
func (e *Engine) Flap(nic string, port, times int, interval time.Duration) error {
	if times < 1 || interval < 0 {
		return fmt.Errorf("flap %s %d times with %s in between: both must be positive", nic, times, interval)
	}
	for i := range times {
		if i > 0 {
			e.options.Sleep(interval)
		}
		var before []hardware.RDMAPort
		err := e.changeNIC(nic, func(_ *Snapshot, n *NICState, device int) error {
			before = slices.Clone(n.RDMA[device].Ports)
			return e.changePorts(n, device, PortChange{Port: port, State: "DOWN"})
		})
		if err != nil {
			return err
		}
		e.options.Sleep(interval)
		err = e.changeNIC(nic, func(_ *Snapshot, n *NICState, device int) error {
			copy(n.RDMA[device].Ports, before)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
