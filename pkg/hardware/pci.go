package hardware

import (
	"fmt"
	"strings"
)

// PCIAddress is the address of a PCI function in the kernel's form,
// "0000:3b:00.0". It is the identity of a device: indices and minors shift.
type PCIAddress string

// ParsePCIAddress reads an address in the kernel's form or in NVML's, whose
// domain has eight digits ("00000000:3B:00.0").
func ParsePCIAddress(s string) (PCIAddress, error) {
	var domain, bus, device, function uint32
	n, err := fmt.Sscanf(strings.ToLower(s), "%x:%x:%x.%x", &domain, &bus, &device, &function)
	if err != nil || n != 4 || bus > 0xff || device > 0x1f || function > 7 {
		return "", fmt.Errorf("PCI address %q: want domain:bus:device.function in hexadecimal", s)
	}
	addr := PCIAddress(fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, device, function))
	if !strings.HasSuffix("00000000"+strings.ToLower(s), strings.TrimLeft(string(addr), "0")) {
		return "", fmt.Errorf("PCI address %q: unexpected characters", s)
	}
	return addr, nil
}

// label is the address as part of a device name.
func (a PCIAddress) label() string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(string(a))
}
