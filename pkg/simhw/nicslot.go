package simhw

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// What speaks against a change of a NIC's place.
var (
	errNICGone  = errors.New("it is not there; plug brings it back")
	errNICThere = errors.New("it is there already")
	errVirtual  = errors.New("it is a virtual function, and only physical ones have some of their own")
)

// UnplugNIC takes a function out while the node runs: for good, or for a time if
// lasts is not 0, as of a NIC that comes late. A physical function takes its virtual
// ones with it, and they do not come back.
func (e *Engine) UnplugNIC(nic string, lasts time.Duration) error {
	var returns *time.Time
	var address hardware.PCIAddress
	if lasts < 0 {
		return fmt.Errorf("take NIC %s out for %s: it must not be negative", nic, lasts)
	}
	if lasts > 0 {
		// Without the monotonic clock's reading, which no file keeps.
		returns = new(time.Now().Add(lasts).Round(0))
	}
	err := e.changeNIC(nic, func(s *Snapshot, n *NICState, _ int) error {
		if n.Absent {
			return errNICGone
		}
		n.Absent, n.Returns, address = true, returns, n.PCI
		s.dropVFs(n.PCI)
		return nil
	})
	if err == nil && returns != nil {
		e.plugAt(address, *returns)
	}
	return err
}

// PlugNIC puts the function back that was taken out. Its links come up.
func (e *Engine) PlugNIC(nic string) error {
	return e.changeNIC(nic, func(_ *Snapshot, n *NICState, _ int) error {
		if !n.Absent {
			return errNICThere
		}
		return e.plug(n)
	})
}

func (e *Engine) plug(n *NICState) error {
	n.Absent, n.Returns, n.LinkDowned = false, nil, nil
	for device := range n.RDMA {
		if err := e.changePorts(n, device, PortChange{State: hardware.PortActive}); err != nil {
			return err
		}
	}
	return nil
}

// plugAt puts it back at that time, unless something else has happened to it by then.
func (e *Engine) plugAt(nic hardware.PCIAddress, at time.Time) {
	time.AfterFunc(time.Until(at), func() {
		// Nobody is there to be told: that it has gone or come is all that can fail.
		_ = e.changeNIC(string(nic), func(_ *Snapshot, n *NICState, _ int) error {
			if !n.Absent || n.Returns == nil || !n.Returns.Equal(at) {
				return errNICThere
			}
			return e.plug(n)
		})
	})
}

// awaitNICs goes on waiting for NICs that were to come back when the engine ended.
func (e *Engine) awaitNICs() {
	for _, n := range e.Snapshot().NICs {
		if n.Returns != nil {
			e.plugAt(n.PCI, *n.Returns)
		}
	}
}

// SetVFs makes so many virtual functions of a physical one, or removes all with 0
// (sriov_numvfs). As in the kernel, their number does not change otherwise.
func (e *Engine) SetVFs(nic string, count int) error {
	return e.changeNIC(nic, func(s *Snapshot, n *NICState, _ int) error {
		most, have := e.server.NICs[n.Card].Model.MaxVFs, s.VFs(n.PCI)
		switch {
		case n.Parent != "":
			return errVirtual
		case n.Absent:
			return errNICGone
		case count < 0 || count > most:
			return fmt.Errorf("it cannot have %d virtual functions: 0 to %d", count, most)
		case count > 0 && len(have) > 0 && count != len(have):
			return fmt.Errorf("it has %d virtual functions, and the kernel refuses to change that (EBUSY): remove them with 0 first", len(have))
		case count == len(have):
			return nil
		}
		card := n.Card // n does not survive what follows
		s.dropVFs(n.PCI)
		for vf := 1; vf <= count; vf++ {
			var taken []hardware.NIC
			for _, other := range s.NICs {
				taken = append(taken, other.NIC)
			}
			s.NICs = append(s.NICs, newNICState(e.server, e.server.NICs[card].Function(s.Seed, card, vf, taken)))
		}
		slices.SortFunc(s.NICs, func(a, b NICState) int { return strings.Compare(string(a.PCI), string(b.PCI)) })
		return nil
	})
}

// VFs are the virtual functions of a physical one, in the order of their numbers.
func (s Snapshot) VFs(physical hardware.PCIAddress) []NICState {
	var out []NICState
	for _, n := range s.NICs {
		if n.Parent == physical && physical != "" {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b NICState) int { return a.Function - b.Function })
	return out
}

// dropVFs makes a new list, since callers hold pointers into the present one.
func (s *Snapshot) dropVFs(physical hardware.PCIAddress) {
	s.NICs = slices.DeleteFunc(slices.Clone(s.NICs), func(n NICState) bool { return n.Parent == physical })
}

// rebootNICs brings all back to what a boot makes; what was taken out stays out.
func (e *Engine) rebootNICs(s *Snapshot) {
	before := s.NICs
	s.NICs = freshNICs(e.server, s.Seed)
	s.Network = freshNetwork()
	for _, old := range before {
		if !old.Absent || old.Function > 0 {
			continue
		}
		for i := range s.NICs {
			if s.NICs[i].PCI == old.PCI {
				s.NICs[i].Absent, s.NICs[i].Returns = true, old.Returns
			}
		}
		s.dropVFs(old.PCI)
	}
}
