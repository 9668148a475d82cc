package serve

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// link reads which link of which GPU a call is about. INVALID_ARGUMENT for a
// number that no GPU has, NOT_SUPPORTED for one that this GPU lacks.
func (c *call) link() (device, uint32, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return device{}, 0, ret
	}
	n := c.u32(1)
	switch {
	case n >= nvml.NVLINK_MAX_LINKS:
		return device{}, 0, nvml.ERROR_INVALID_ARGUMENT
	case int(n) >= c.engine.Server().NVLinksPerGPU:
		return device{}, 0, nvml.ERROR_NOT_SUPPORTED
	}
	return d, n, nvml.SUCCESS
}

func (c *call) ofLink(value uint32) nvml.Return {
	if _, _, ret := c.link(); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, value)
}

func linkState(c *call) nvml.Return { return c.ofLink(uint32(nvml.FEATURE_ENABLED)) }

func linkVersion(c *call) nvml.Return {
	return c.ofLink(uint32(c.engine.Server().NVLinkVersion))
}

// linkRemoteType: every server of the catalogue with NVLinks has NVSwitches.
func linkRemoteType(c *call) nvml.Return { return c.ofLink(uint32(nvml.NVLINK_DEVICE_TYPE_SWITCH)) }

func linkCapability(c *call) nvml.Return {
	if _, _, ret := c.link(); ret != nvml.SUCCESS {
		return ret
	}
	switch nvml.NvLinkCapability(c.u32(2)) {
	case nvml.NVLINK_CAP_P2P_SUPPORTED, nvml.NVLINK_CAP_SYSMEM_ACCESS, nvml.NVLINK_CAP_P2P_ATOMICS,
		nvml.NVLINK_CAP_SYSMEM_ATOMICS, nvml.NVLINK_CAP_VALID:
		return c.writeU32(3, 1)
	case nvml.NVLINK_CAP_SLI_BRIDGE:
		return c.writeU32(3, 0)
	}
	return nvml.ERROR_INVALID_ARGUMENT
}

// linkRemotePCI: no public source of the catalogue has the switches' addresses,
// and on newer systems they are not on the GPU's PCI buses at all.
func linkRemotePCI(c *call) nvml.Return {
	if _, _, ret := c.link(); ret != nvml.SUCCESS {
		return ret
	}
	return nvml.ERROR_NOT_SUPPORTED
}

func linkErrors(c *call) nvml.Return {
	d, n, ret := c.link()
	if ret != nvml.SUCCESS {
		return ret
	}
	counts := map[nvml.NvLinkErrorCounter]uint64{
		nvml.NVLINK_ERROR_DL_REPLAY: d.state.Health.NVLink.Replay, nvml.NVLINK_ERROR_DL_RECOVERY: d.state.Health.NVLink.Recovery,
		nvml.NVLINK_ERROR_DL_CRC_FLIT: d.state.Health.NVLink.CRC, nvml.NVLINK_ERROR_DL_CRC_DATA: 0, nvml.NVLINK_ERROR_DL_ECC_DATA: 0,
	}
	count, ok := counts[nvml.NvLinkErrorCounter(c.u32(2))]
	if !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	if n > 0 {
		count = 0
	}
	return c.writeU64(3, count)
}

func resetLinkErrors(c *call) nvml.Return {
	d, n, ret := c.link()
	if ret != nvml.SUCCESS || n > 0 {
		return ret
	}
	return c.changeHealth(d, func(h *simhw.Health) { h.NVLink = simhw.NVLinkErrors{} })
}

// fabric is what the GPU knows of its NVLink fabric. Hopper and newer answer on
// every server; the state then says whether there is a fabric (nvml.h).
func (c *call) fabric() (nvml.GpuFabricInfo_v3, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return nvml.GpuFabricInfo_v3{}, ret
	}
	server := c.engine.Server()
	if !hopperOrNewer(server.GPUs[d.gpu].Model) {
		return nvml.GpuFabricInfo_v3{}, nvml.ERROR_NOT_SUPPORTED
	}
	if !server.Fabric.Registered {
		return nvml.GpuFabricInfo_v3{State: nvml.GPU_FABRIC_STATE_NOT_SUPPORTED}, nvml.SUCCESS
	}
	switch d.state.Health.Fabric {
	case simhw.FabricNotStarted:
		return nvml.GpuFabricInfo_v3{State: nvml.GPU_FABRIC_STATE_NOT_STARTED}, nvml.SUCCESS
	case simhw.FabricInProgress:
		return nvml.GpuFabricInfo_v3{State: nvml.GPU_FABRIC_STATE_IN_PROGRESS}, nvml.SUCCESS
	case simhw.FabricFailed:
		// No source has the status that comes with it; nvml.h says only that it is an
		// nvmlReturn_t and not SUCCESS.
		return nvml.GpuFabricInfo_v3{State: nvml.GPU_FABRIC_STATE_COMPLETED, Status: uint32(nvml.ERROR_UNKNOWN)}, nvml.SUCCESS
	}
	return nvml.GpuFabricInfo_v3{
		ClusterUuid: server.ClusterUUID(c.engine.Snapshot().Seed), CliqueId: server.Fabric.Clique,
		State: nvml.GPU_FABRIC_STATE_COMPLETED, HealthMask: healthyFabric, HealthSummary: nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY,
	}, nvml.SUCCESS
}

// healthyFabric says of everything that can go wrong that it has not.
const healthyFabric = nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE<<nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW |
	nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_RECOVERY_FALSE<<nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY |
	nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_FALSE<<nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY |
	nvml.GPU_FABRIC_HEALTH_MASK_ACCESS_TIMEOUT_RECOVERY_FALSE<<nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY |
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE<<nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION

func fabricInfo(c *call) nvml.Return {
	v3, ret := c.fabric()
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &nvml.GpuFabricInfo{ClusterUuid: v3.ClusterUuid, Status: v3.Status, CliqueId: v3.CliqueId, State: v3.State})
}

func fabricInfoV(c *call) nvml.Return {
	v3, ret := c.fabric()
	if ret != nvml.SUCCESS {
		return ret
	}
	switch v3.Version = c.u32(1); v3.Version {
	case version[nvml.GpuFabricInfo_v2](2):
		return writeStruct(c, 1, &nvml.GpuFabricInfo_v2{
			Version: v3.Version, ClusterUuid: v3.ClusterUuid, Status: v3.Status, CliqueId: v3.CliqueId, State: v3.State, HealthMask: v3.HealthMask,
		})
	case version[nvml.GpuFabricInfo_v3](3):
		return writeStruct(c, 1, &v3)
	}
	return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
}

func fabricInfoV4(c *call) nvml.Return {
	v3, ret := c.fabric()
	if ret != nvml.SUCCESS {
		return ret
	}
	info := nvml.GpuFabricInfo_v4{
		ClusterUuid: v3.ClusterUuid, Status: v3.Status, State: v3.State, HealthMask: v3.HealthMask, HealthSummary: v3.HealthSummary,
	}
	if v3.State == nvml.GPU_FABRIC_STATE_COMPLETED {
		info.NumCliques = 1
		info.Cliques[0] = nvml.GpuFabricClique_v1{Type: nvml.GPU_FABRIC_CLIQUE_TYPE_UNICAST_POINTER, Id: v3.CliqueId}
	}
	return writeStruct(c, 1, &info)
}

func hopperOrNewer(m catalog.Model) bool {
	return m.Architecture == "Hopper" || m.Architecture == "Blackwell"
}
