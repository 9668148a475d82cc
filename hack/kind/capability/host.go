package capability

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Bounding returns the bounding set of this process.
func Bounding() (Mask, error) {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read own bounding set: %w", err)
	}
	defer status.Close()
	return ParseBounding(status)
}

// Withheld lists the capabilities that the kernel has but this process can
// never hold nor give to a child.
func Withheld() ([]string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return nil, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("parse the kernel's last capability: %w", err)
	}
	bounding, err := Bounding()
	if err != nil {
		return nil, err
	}
	return bounding.Missing(Full(last)), nil
}
