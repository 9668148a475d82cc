package promise

import (
	"fmt"
	"testing"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// TestSchedulerAndHardwareAgreeOnPairs is the same with NICs, alone and in pairs with
// GPUs: nobody gets a GPU or a NIC that another claim has, however it was asked for,
// and what is free can be had. Two models stand for all: one that can do MIG, and one
// that cannot, which has counters only because of the pairs.
func TestSchedulerAndHardwareAgreeOnPairs(t *testing.T) {
	for _, name := range []string{"h100-80gb-sxm", "l40s"} {
		model, _, err := catalog.LoadModel(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { check(t, pair(model), nics(), allocate.DefaultFeatures()) })
	}
}

// nics are two behind the switch of the GPUs, and one elsewhere.
func nics() []hardware.NIC {
	var out []hardware.NIC
	for i, at := range [][]hardware.PCIAddress{behind(0), behind(1), {"0000:a0:01.0"}} {
		out = append(out, hardware.NIC{PCI: hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 0x50+i)), Bridges: at})
	}
	return out
}

// behind is a place behind the one switch, at port i.
func behind(i int) []hardware.PCIAddress {
	return []hardware.PCIAddress{"0000:3a:01.0", "0000:3a:02.0", hardware.PCIAddress(fmt.Sprintf("0000:3a:%02x.0", 3+i))}
}

// nicKinds are NICs and pairs.
func nicKinds() []kind {
	return []kind{
		{
			expression: fmt.Sprintf("device.attributes[%q].type == 'nic'", driverName),
			selects:    func(d hardware.Device) bool { return d.NIC != nil && d.GPU.PCI == "" },
		},
		{
			expression: fmt.Sprintf("device.attributes[%q].type == 'gpu-nic'", driverName),
			selects:    func(d hardware.Device) bool { return d.NIC != nil && d.GPU.PCI != "" },
		},
	}
}

// nicDevices are the names of NICs and of pairs: any GPU that can be had whole with
// either of the NICs behind its switch.
func (m *machine) nicDevices() []string {
	var out []string
	for i, n := range m.nics {
		out = append(out, n.DeviceName())
		for _, g := range m.node.GPUs {
			if i < 2 && (g.MIG == nil || g.MIG.Switchable) {
				out = append(out, g.DeviceName()+"-"+n.DeviceName())
			}
		}
	}
	return out
}

// take hands out a NIC. Hardware does not know that two are not to have the same one.
func (m *machine) take(n hardware.NIC) error {
	if m.busy[n.PCI] {
		return fmt.Errorf("hand out %s: %w", n.DeviceName(), errNoRoom)
	}
	m.busy[n.PCI] = true
	return nil
}
