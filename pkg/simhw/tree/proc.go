package tree

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

func (t *Tree) proc(p plan, s simhw.Snapshot) {
	p.file("proc/sys/kernel/random/boot_id", s.BootID+"\n")
	if s.Driver.Unloaded {
		p.file("proc/devices", "Character devices:\n\nBlock devices:\n")
		return
	}
	p.file("proc/devices", fmt.Sprintf("Character devices:\n%3d nvidia\n%3d nvidia-modeset\n%3d nvidiactl\n%3d nvidia-caps\n%3d nvidia-uvm\n\nBlock devices:\n",
		t.Majors.GPU, t.Majors.GPU, t.Majors.GPU, t.Majors.Capability, t.Majors.UVM))
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	p.file("proc/driver/nvidia/version", fmt.Sprintf("NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (cleave-simhw: simulated)\n",
		machine, s.Driver.Version))
	p.file("proc/driver/nvidia-caps/mig-minors", t.migMinors)
	p.file("proc/driver/nvidia/capabilities/mig/config", capabilityFile(simhw.CapabilityConfig, configMode))
	p.file("proc/driver/nvidia/capabilities/mig/monitor", capabilityFile(simhw.CapabilityMonitor, accessMode))
	for _, g := range s.GPUs {
		if g.Absent {
			continue
		}
		p.file(filepath.Join("proc/driver/nvidia/gpus", string(g.PCI), "information"), fmt.Sprintf(
			"Model: \t\t %s\nIRQ:   \t\t 0\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\n",
			g.Product, g.UUID, g.PCI, g.Minor, s.Driver.Version))
		if g.MIGCapable {
			p[migDir(g.Minor)] = entry{kind: directory, mode: 0o755}
		}
		for path, minor := range capabilities(g) {
			p.file(path, capabilityFile(minor, accessMode))
		}
	}
}

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
