package hardware

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PCIAddress is the address of a PCI function in the kernel's form,
// "0000:3b:00.0". It is the identity of a device: indices and minors shift.
type PCIAddress string

// pciPattern takes domains of up to 32 bits: some virtual machines and volume
// management devices go beyond the 16 bits of PCI itself.
var pciPattern = regexp.MustCompile(`^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

// ParsePCIAddress reads an address in the kernel's form or in NVML's, whose
// domain has eight digits and whose letters may be capitals ("00000000:3B:00.0").
// Equal addresses give equal results.
func ParsePCIAddress(s string) (PCIAddress, error) {
	m := pciPattern.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return "", fmt.Errorf("PCI address %q: want domain:bus:device.function in hexadecimal, for example 0000:3b:00.0", s)
	}
	if m[3] > "1f" {
		return "", fmt.Errorf("PCI address %q: device %s is above 1f", s, m[3])
	}
	domain, err := strconv.ParseUint(m[1], 16, 32)
	if err != nil {
		return "", fmt.Errorf("PCI address %q: domain: %w", s, err)
	}
	return PCIAddress(fmt.Sprintf("%04x:%s:%s.%s", domain, m[2], m[3], m[4])), nil
}

// label is the address as part of a device name.
func (a PCIAddress) label() string { return labels.Replace(string(a)) }

var labels = strings.NewReplacer(":", "-", ".", "-")
