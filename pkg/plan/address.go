package plan

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Addresses are the PCI addresses of all GPUs and NICs that the plan touches,
// ascending and without duplicates: the order in which they are locked.
func (p Plan) Addresses() []hardware.PCIAddress {
	var out []hardware.PCIAddress
	for _, d := range p.Devices {
		if d.GPU.PCI != "" {
			out = append(out, d.GPU.PCI)
		}
		if d.NIC != nil {
			out = append(out, d.NIC.PCI)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AddressesOf are the PCI addresses of the GPUs and NICs that a claim's results of
// this driver name, ascending and without duplicates. Names that are not this
// driver's are an error; whether the hardware exists is not asked.
func AddressesOf(claim *resourceapi.ResourceClaim, driverName string) ([]hardware.PCIAddress, error) {
	var out []hardware.PCIAddress
	for _, r := range Results(claim, driverName) {
		addrs, err := hardware.AddressesOf(r.Device)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, addrs...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
