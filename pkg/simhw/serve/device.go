package serve

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

func systemDriverVersion(c *call) nvml.Return {
	return c.writeText(0, c.engine.Snapshot().Driver.Version)
}

// systemNVMLVersion is the CUDA major version and the driver's version.
func systemNVMLVersion(c *call) nvml.Return {
	return c.writeText(0, fmt.Sprintf("%d.%s", c.engine.Server().CUDADriverVersion/1000, c.engine.Snapshot().Driver.Version))
}

func systemCUDAVersion(c *call) nvml.Return {
	return c.writeU32(0, uint32(c.engine.Server().CUDADriverVersion))
}

func deviceCount(c *call) nvml.Return {
	return c.writeU32(0, uint32(len(c.view.gpus(c.engine.Snapshot()))))
}

func handleByIndex(c *call) nvml.Return {
	gpus := c.view.gpus(c.engine.Snapshot())
	if i := c.u32(0); uint64(i) < uint64(len(gpus)) {
		return c.writeToken(1, gpuToken(gpus[i]))
	}
	return nvml.ERROR_INVALID_ARGUMENT
}

// handleByUUID takes UUIDs of GPUs and of MIG devices.
func handleByUUID(c *call) nvml.Return {
	uuid, ok := c.text(0)
	if !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	s := c.engine.Snapshot()
	for _, g := range c.view.gpus(s) {
		if g.UUID == uuid {
			return c.writeToken(1, gpuToken(g))
		}
		for _, d := range c.view.migDevices(s, g.Index) {
			if d.Compute.UUID == uuid {
				return c.writeToken(1, newToken(kindMIG, g.Index, d.Compute.Serial))
			}
		}
	}
	return nvml.ERROR_NOT_FOUND
}

func handleBySerial(c *call) nvml.Return {
	serial, ok := c.text(0)
	return c.search(ok, func(g simhw.GPUState) bool { return boardSerial(g) == serial })
}

// handleByPCI takes the kernel's form and NVML's, and like NVML one without domain.
func handleByPCI(c *call) nvml.Return {
	text, ok := c.text(0)
	if strings.Count(text, ":") == 1 {
		text = "0000:" + text
	}
	addr, err := hardware.ParsePCIAddress(text)
	return c.search(ok && err == nil, func(g simhw.GPUState) bool { return g.PCI == addr })
}

func (c *call) search(valid bool, is func(simhw.GPUState) bool) nvml.Return {
	if !valid {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	for _, g := range c.view.gpus(c.engine.Snapshot()) {
		if is(g) {
			return c.writeToken(1, gpuToken(g))
		}
	}
	return nvml.ERROR_NOT_FOUND
}

// boardSerial is thirteen digits, made from the UUID.
func boardSerial(g simhw.GPUState) string {
	h := fnv.New64a()
	h.Write([]byte(g.UUID))
	return fmt.Sprintf("165%010d", h.Sum64()%1e10)
}

func deviceName(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	name := d.state.Product
	if d.mig != nil {
		name += " " + c.migName(d)
	}
	return c.writeText(1, name)
}

// migName is "MIG 1g.10gb", or "MIG 1c.3g.40gb" for a part of the GPU instance.
func (c *call) migName(d device) string {
	gi, _ := c.engine.Profile(d.gpu, d.mig.Instance.ProfileEnum)
	if d.mig.Compute.Placement.Size == gi.Slices {
		return profileName(gi.Name, "")
	}
	return profileName(gi.Name, fmt.Sprintf("%dc", d.mig.Compute.Placement.Size))
}

// brands and architectures are NVML's values for the catalog's names.
var (
	brands        = map[string]nvml.BrandType{"Nvidia": nvml.BRAND_NVIDIA}
	architectures = map[string]nvml.DeviceArchitecture{
		"Turing": nvml.DEVICE_ARCH_TURING, "Ampere": nvml.DEVICE_ARCH_AMPERE, "Ada Lovelace": nvml.DEVICE_ARCH_ADA,
		"Hopper": nvml.DEVICE_ARCH_HOPPER, "Blackwell": nvml.DEVICE_ARCH_BLACKWELL,
	}
)

// model is the catalog's entry for a GPU, not a MIG device, and whether it is one.
func (c *call) model() (catalog.Model, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return catalog.Model{}, ret
	}
	return c.engine.Server().GPUs[d.gpu].Model, nvml.SUCCESS
}

func deviceBrand(c *call) nvml.Return {
	m, ret := c.model()
	if ret != nvml.SUCCESS {
		return ret
	}
	brand, ok := brands[m.Brand]
	if !ok {
		brand = nvml.BRAND_UNKNOWN
	}
	return c.writeU32(1, uint32(brand))
}

func deviceArchitecture(c *call) nvml.Return {
	m, ret := c.model()
	if ret != nvml.SUCCESS {
		return ret
	}
	architecture, ok := architectures[m.Architecture]
	if !ok {
		architecture = nvml.DEVICE_ARCH_UNKNOWN
	}
	return c.writeU32(1, uint32(architecture))
}

func deviceComputeCapability(c *call) nvml.Return {
	m, ret := c.model()
	if ret != nvml.SUCCESS {
		return ret
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(m.ComputeCapability, "%d.%d", &major, &minor); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	if ret := c.writeU32(1, major); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, minor)
}

// deviceIndex counts among what this client sees.
func deviceIndex(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	s := c.engine.Snapshot()
	if d.mig == nil {
		for i, g := range c.view.gpus(s) {
			if g.Index == d.gpu {
				return c.writeU32(1, uint32(i))
			}
		}
		return nvml.ERROR_UNKNOWN
	}
	for i, m := range c.migDevices(s, d.gpu) {
		if m.Compute.Serial == d.mig.Compute.Serial {
			return c.writeU32(1, uint32(i))
		}
	}
	return nvml.ERROR_INVALID_ARGUMENT
}

func deviceSerial(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeText(1, boardSerial(d.state))
}

func deviceUUID(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	if d.mig != nil {
		return c.writeText(1, d.mig.Compute.UUID)
	}
	return c.writeText(1, d.state.UUID)
}

func deviceMinor(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, uint32(d.state.Minor))
}

func devicePCI(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	id := c.engine.Server().GPUs[d.gpu].Model.PCI
	info := nvml.PciInfo{
		PciDeviceId:    uint32(id.Device)<<16 | uint32(id.Vendor),
		PciSubSystemId: uint32(id.SubsystemDevice)<<16 | uint32(id.SubsystemVendor),
	}
	var function uint32
	if _, err := fmt.Sscanf(string(d.state.PCI), "%x:%x:%x.%x", &info.Domain, &info.Bus, &info.Device, &function); err != nil {
		return nvml.ERROR_UNKNOWN
	}
	short := fmt.Sprintf("%04X:%02X:%02X.%X", info.Domain, info.Bus, info.Device, function)
	full := fmt.Sprintf("%08X:%02X:%02X.%X", info.Domain, info.Bus, info.Device, function)
	chars(info.BusIdLegacy[:], short)
	chars(info.BusId[:], busID(c.engine.Snapshot().Driver.BusIDs, full, short))
	return writeStruct(c, 1, &info)
}

// busID is the form that the driver writes addresses in.
func busID(form simhw.BusIDForm, full, short string) string {
	switch form {
	case simhw.BusIDShort:
		return short
	case simhw.BusIDLower:
		return strings.ToLower(full)
	case simhw.BusIDKernel:
		return strings.ToLower(short)
	case simhw.BusIDMissing:
		return ""
	}
	return full
}

// memory is the total in bytes.
func (c *call) memory() (uint64, nvml.Return) {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	mib := c.engine.Server().GPUs[d.gpu].Model.MemoryMiB
	if d.mig != nil {
		p, ret := c.engine.Profile(d.gpu, d.mig.Instance.ProfileEnum)
		if ret != nvml.SUCCESS {
			return 0, ret
		}
		mib = p.MemoryMiB
	}
	return uint64(mib) << 20, nvml.SUCCESS
}

func deviceMemory(c *call) nvml.Return {
	total, ret := c.memory()
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &nvml.Memory{Total: total, Free: total - c.used(total), Used: c.used(total)})
}

func deviceMemoryV2(c *call) nvml.Return {
	total, ret := c.memory()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) != version[nvml.Memory_v2](2) {
		return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	return writeStruct(c, 1, &nvml.Memory_v2{Version: c.u32(1), Total: total, Free: total - c.used(total), Used: c.used(total)})
}

func deviceVirtualization(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	mode, ok := map[simhw.Virtualization]nvml.GpuVirtualizationMode{
		simhw.BareMetal: nvml.GPU_VIRTUALIZATION_MODE_NONE, simhw.Passthrough: nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH,
		simhw.VGPU: nvml.GPU_VIRTUALIZATION_MODE_VGPU,
	}[c.engine.Virtualization()]
	if !ok {
		return nvml.ERROR_UNKNOWN
	}
	return c.writeU32(1, uint32(mode))
}

// getComputeMode: MIG devices always have the default.
func getComputeMode(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	if d.mig != nil {
		return c.writeU32(1, uint32(nvml.COMPUTEMODE_DEFAULT))
	}
	mode, ret := c.engine.ComputeMode(d.gpu)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, uint32(mode))
}

func setComputeMode(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.SetComputeMode(d.gpu, nvml.ComputeMode(c.u32(1)))
}
