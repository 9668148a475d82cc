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
	p.file("proc/devices", t.characterDevices(s))
	if s.Driver.Unloaded {
		return
	}
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

// characterDevices are the majors that are given away.
func (t *Tree) characterDevices(s simhw.Snapshot) string {
	var b strings.Builder
	b.WriteString("Character devices:\n")
	add := func(major int, names ...string) {
		for _, name := range names {
			fmt.Fprintf(&b, "%3d %s\n", major, name)
		}
	}
	if !s.Driver.Unloaded {
		add(t.Majors.GPU, "nvidia", "nvidia-modeset", "nvidiactl")
		add(t.Majors.Capability, "nvidia-caps")
		add(t.Majors.UVM, "nvidia-uvm")
	}
	if t.hasRDMA() {
		add(t.Majors.InfiniBand, "infiniband_mad", "infiniband_verbs")
		add(t.Majors.Misc, "misc")
	}
	b.WriteString("\nBlock devices:\n")
	return b.String()
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
