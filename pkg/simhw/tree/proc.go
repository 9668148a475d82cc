package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

func (t Tree) proc(s simhw.Snapshot) error {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	devices := fmt.Sprintf("Character devices:\n%3d nvidia\n%3d nvidia-modeset\n%3d nvidiactl\n%3d nvidia-caps\n%3d nvidia-uvm\n\nBlock devices:\n",
		t.Majors.GPU, t.Majors.GPU, t.Majors.GPU, t.Majors.Capability, t.Majors.UVM)
	version := fmt.Sprintf("NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (cleave-simhw: simulated)\n",
		machine, t.Server.DriverVersion)
	err := errors.Join(
		t.procFile("devices", devices),
		t.procFile("driver/nvidia/version", version),
		t.procFile("driver/nvidia-caps/mig-minors", migMinors()),
		t.procFile("driver/nvidia/capabilities/mig/config", capabilityFile(simhw.CapabilityConfig, configMode)),
		t.procFile("driver/nvidia/capabilities/mig/monitor", capabilityFile(simhw.CapabilityMonitor, accessMode)),
	)
	for _, g := range s.GPUs {
		information := fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 0\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\n",
			g.Product, g.UUID, g.PCI, g.Minor, t.Server.DriverVersion)
		err = errors.Join(err, t.procFile(filepath.Join("driver/nvidia/gpus", string(g.PCI), "information"), information))
		if g.MIGCapable {
			err = errors.Join(err, os.MkdirAll(t.path(migDir(g.Minor)), 0o755))
		}
	}
	return err
}

func (t Tree) procFile(name, content string) error {
	return writeFile(t.path("proc", name), []byte(content), 0o444)
}

// Modes of capability device nodes: only root may configure.
const (
	configMode = 0o400
	accessMode = 0o444
)

// capabilityFile is what the driver shows of a capability.
func capabilityFile(minor, mode int) string {
	return fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, mode)
}

func migDir(gpu int) string {
	return filepath.Join("proc/driver/nvidia/capabilities", fmt.Sprintf("gpu%d", gpu), "mig")
}

// migMinors lists the minors of all instances that could ever be.
func migMinors() string {
	var b strings.Builder
	fmt.Fprintf(&b, "config %d\nmonitor %d\n", simhw.CapabilityConfig, simhw.CapabilityMonitor)
	for gpu := range simhw.MaxGPUs {
		for gi := range simhw.MaxGPUInstances {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", gpu, gi, simhw.GPUInstanceMinor(gpu, gi))
			for ci := range simhw.MaxComputeInstances {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, simhw.ComputeInstanceMinor(gpu, gi, ci))
			}
		}
	}
	return b.String()
}
