package tree

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Host is where the kernel's own files are, normally /proc and /sys.
type Host struct {
	Proc, Sys string
}

// CheckNoHardware fails on a machine with an NVIDIA GPU or its driver: simulated
// device nodes beside real ones would confuse whoever looks.
func (h Host) CheckNoHardware() error {
	if _, err := os.Stat(filepath.Join(h.Proc, "driver", "nvidia", "version")); err == nil {
		return errors.New("the NVIDIA driver is loaded on this machine: simulated hardware is for machines without it")
	}
	devices := filepath.Join(h.Sys, "bus", "pci", "devices")
	entries, err := os.ReadDir(devices)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for real GPUs: %w", err)
	}
	for _, e := range entries {
		vendor, _ := os.ReadFile(filepath.Join(devices, e.Name(), "vendor"))
		class, _ := os.ReadFile(filepath.Join(devices, e.Name(), "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			return fmt.Errorf("there is a real NVIDIA GPU at %s: simulated hardware is for machines without one", e.Name())
		}
	}
	return nil
}

// majors are the character device majors that the kernel has given away, with the
// name of who has them.
func (h Host) majors() (map[int]string, error) {
	f, err := os.Open(filepath.Join(h.Proc, "devices"))
	if err != nil {
		return nil, fmt.Errorf("read the kernel's device majors: %w", err)
	}
	defer f.Close()
	out := map[int]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var major int
		var name string
		if strings.HasPrefix(lines.Text(), "Block devices") {
			break
		}
		if n, _ := fmt.Sscanf(strings.TrimSpace(lines.Text()), "%d %s", &major, &name); n == 2 {
			out[major] = name
		}
	}
	return out, lines.Err()
}
