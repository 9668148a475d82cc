package params

import "github.com/cleave-dra/cleave/pkg/hardware"

// DeviceType is what a device is to configuration: the value of its published
// attribute "type".
type DeviceType string

// The types of devices. An unknown one is empty, and nothing configures it.
const (
	WholeGPU DeviceType = "gpu"
	MIGSlice DeviceType = "mig"
	NIC      DeviceType = "nic"
	// Pair is a GPU and a NIC near it, as one device.
	Pair DeviceType = "gpu-nic"
)

// DeviceTypes returns every type.
func DeviceTypes() []DeviceType { return []DeviceType{WholeGPU, MIGSlice, NIC, Pair} }

// typeOfDevice reads a device's type out of its name.
func typeOfDevice(name string) DeviceType {
	addrs, err := hardware.AddressesOf(name)
	switch {
	case err != nil:
		return ""
	case len(addrs) == 2:
		return Pair
	case hardware.NIC{PCI: addrs[0]}.DeviceName() == name:
		return NIC
	case hardware.GPU{PCI: addrs[0]}.DeviceName() == name:
		return WholeGPU
	default:
		return MIGSlice
	}
}
