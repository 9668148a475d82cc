package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/uuid"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// nvlink is the NVLink fabric that the GPU has joined. It is nil without one; while
// the fabric manager has not come to the GPU yet; if it has refused it; and where the
// library cannot tell, as before Hopper.
func (s *session) nvlink(dev nvml.Device) *hardware.NVLinkFabric {
	info, ok := s.fabricInfo(dev)
	// The status is about a completed registration (nvml.h, nvmlGpuFabricInfo_t).
	if !ok || info.State != nvml.GPU_FABRIC_STATE_COMPLETED || nvml.Return(info.Status) != nvml.SUCCESS {
		return nil
	}
	fabric := &hardware.NVLinkFabric{Clique: info.CliqueId}
	if id := uuid.UUID(info.ClusterUuid); id != uuid.Nil {
		fabric.Cluster = id.String()
	}
	return fabric
}

// fabricInfo asks in the newest form that the library knows; all forms have the same
// answer to what is asked here. Older libraries refuse a newer structure, and those of
// the future may refuse an older one.
func (s *session) fabricInfo(dev nvml.Device) (nvml.GpuFabricInfo, bool) {
	if s.has("nvmlDeviceGetGpuFabricInfoV") {
		versioned := dev.GetGpuFabricInfoV()
		if v, ret := versioned.V3(); ret == nvml.SUCCESS {
			return nvml.GpuFabricInfo{ClusterUuid: v.ClusterUuid, Status: v.Status, CliqueId: v.CliqueId, State: v.State}, true
		}
		if v, ret := versioned.V2(); ret == nvml.SUCCESS {
			return nvml.GpuFabricInfo{ClusterUuid: v.ClusterUuid, Status: v.Status, CliqueId: v.CliqueId, State: v.State}, true
		}
	}
	if s.has("nvmlDeviceGetGpuFabricInfo") {
		if v, ret := dev.GetGpuFabricInfo(); ret == nvml.SUCCESS {
			return v, true
		}
	}
	return nvml.GpuFabricInfo{}, false
}
