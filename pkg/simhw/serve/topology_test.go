package serve

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

func TestLevel(t *testing.T) {
	slot := func(pci, root string, numa int, bridges ...hardware.PCIAddress) catalog.ServerGPU {
		return catalog.ServerGPU{PCI: hardware.PCIAddress(pci), RootComplex: root, NUMANode: numa, Bridges: bridges}
	}
	a := slot("0000:1b:00.0", "pci0000:15", 0, "0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
	tests := map[string]struct {
		b    catalog.ServerGPU
		want nvml.GpuTopologyLevel
	}{
		"itself":            {a, nvml.TOPOLOGY_INTERNAL},
		"same switch":       {slot("0000:1c:00.0", "pci0000:15", 0, "0000:15:01.0", "0000:16:00.0", "0000:17:01.0"), nvml.TOPOLOGY_SINGLE},
		"switch behind one": {slot("0000:1c:00.0", "pci0000:15", 0, "0000:15:01.0", "0000:16:00.0", "0000:17:01.0", "0000:18:00.0", "0000:19:00.0"), nvml.TOPOLOGY_MULTIPLE},
		"same root complex": {slot("0000:2b:00.0", "pci0000:15", 0, "0000:15:02.0", "0000:26:00.0"), nvml.TOPOLOGY_HOSTBRIDGE},
		"same NUMA node":    {slot("0000:43:00.0", "pci0000:3d", 0, "0000:3d:01.0"), nvml.TOPOLOGY_NODE},
		"other socket":      {slot("0000:9d:00.0", "pci0000:97", 1, "0000:97:01.0"), nvml.TOPOLOGY_SYSTEM},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := level(a, tc.b); got != tc.want {
				t.Errorf("level %d, want %d", got, tc.want)
			}
			if got := level(tc.b, a); got != tc.want {
				t.Errorf("level the other way %d, want %d", got, tc.want)
			}
		})
	}
}

func TestCPUList(t *testing.T) {
	tests := map[string][]int{"": nil, "3": {3}, "0-2,8": {0, 1, 2, 8}, "x,1": {1}}
	for text, want := range tests {
		if diff := cmp.Diff(want, cpuList(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestAffinity(t *testing.T) {
	e := engineOf(t, "dgx-h100")
	_, out := invoke(t, e, everyNode, "nvmlDeviceGetCpuAffinity", gpuArgument(5), u32(4), pointer(32))
	var got []uint64
	for i := range 4 {
		got = append(got, written(out[2][8*i:8*i+8]))
	}
	want := []uint64{0xff << 56, 1<<48 - 1, 0xffffff << 40, 1<<32 - 1} // 56-111, 168-223
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CPU mask (-want +got):\n%s", diff)
	}
	_, out = invoke(t, e, everyNode, "nvmlDeviceGetMemoryAffinity", gpuArgument(5), u32(1), pointer(8), u32(0))
	if written(out[2]) != 1<<1 {
		t.Errorf("memory mask %x", written(out[2]))
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlDeviceGetMemoryAffinity", gpuArgument(5), u32(1), pointer(8), u32(2)); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("unknown scope: %d", ret)
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlDeviceGetCpuAffinity", gpuArgument(5), u32(0), pointer(0)); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("no room: %d", ret)
	}
}

func TestNearestGPUs(t *testing.T) {
	e := engineOf(t, "dgx-h100")
	tests := map[nvml.GpuTopologyLevel][]int{
		nvml.TOPOLOGY_SINGLE: nil, nvml.TOPOLOGY_NODE: {1, 2, 3}, nvml.TOPOLOGY_SYSTEM: {4, 5, 6, 7},
	}
	for at, want := range tests {
		_, out := invoke(t, e, everyNode, "nvmlDeviceGetTopologyNearestGpus", gpuArgument(0), u32(uint32(at)), count(0), argument{kind: kindNull})
		if got := written(out[2]); got != uint64(len(want)) {
			t.Errorf("level %d: %d GPUs counted, want %d", at, got, len(want))
		}
		_, out = invoke(t, e, everyNode, "nvmlDeviceGetTopologyNearestGpus", gpuArgument(0), u32(uint32(at)), count(8), pointer(64))
		var got []int
		for b := out[3]; len(b) > 0; b = b[8:] {
			got = append(got, token(written(b[:8])).handle().GPU)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("level %d (-want +got):\n%s", at, diff)
		}
	}
}

func TestP2P(t *testing.T) {
	const nvlink, read, pci = uint32(nvml.P2P_CAPS_INDEX_NVLINK), uint32(nvml.P2P_CAPS_INDEX_READ), uint32(nvml.P2P_CAPS_INDEX_PCI)
	tests := map[string]struct {
		server string
		mig    bool
		b      int
		index  uint32
		want   nvml.GpuP2PStatus
	}{
		"NVLink":              {"dgx-h100", false, 7, nvlink, nvml.P2P_STATUS_OK},
		"read over NVLink":    {"dgx-h100", false, 7, read, nvml.P2P_STATUS_OK},
		"PCIe across sockets": {"dgx-h100", false, 7, pci, nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED},
		"PCIe in a socket":    {"dgx-h100", false, 1, pci, nvml.P2P_STATUS_OK},
		"with MIG":            {"dgx-h100", true, 7, nvlink, nvml.P2P_STATUS_NOT_SUPPORTED},
		"different models":    {"mixed", false, 1, read, nvml.P2P_STATUS_GPU_NOT_SUPPORTED},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, tc.server)
			if tc.mig {
				slice(t, e)
			}
			ret, got := askNumber(t, e, "nvmlDeviceGetP2PStatus", gpuArgument(0), gpuArgument(tc.b), u32(tc.index))
			if ret != nvml.SUCCESS || got != uint64(tc.want) {
				t.Errorf("%d, status %d, want %d", ret, got, tc.want)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	tests := map[string]struct {
		server, function string
		link             uint32
		ret              nvml.Return
		want             uint64
	}{
		"state":       {"dgx-h100", "nvmlDeviceGetNvLinkState", 17, nvml.SUCCESS, 1},
		"version":     {"dgx-h100", "nvmlDeviceGetNvLinkVersion", 0, nvml.SUCCESS, 4},
		"far end":     {"dgx-h100", "nvmlDeviceGetNvLinkRemoteDeviceType", 0, nvml.SUCCESS, 2},
		"not there":   {"dgx-h100", "nvmlDeviceGetNvLinkState", 18, nvml.ERROR_NOT_SUPPORTED, 0},
		"nowhere":     {"dgx-h100", "nvmlDeviceGetNvLinkState", 36, nvml.ERROR_INVALID_ARGUMENT, 0},
		"PCIe server": {"mixed", "nvmlDeviceGetNvLinkState", 0, nvml.ERROR_NOT_SUPPORTED, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ret, got := askNumber(t, engineOf(t, tc.server), tc.function, gpuArgument(0), u32(tc.link))
			if ret != tc.ret || got != tc.want {
				t.Errorf("%d, %d, want %d, %d", ret, got, tc.ret, tc.want)
			}
		})
	}
}

func TestFabric(t *testing.T) {
	rack, _, err := catalog.LoadServer("gb200-tray")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Ret     nvml.Return
		State   uint8
		Joined  bool
		Clique  uint32
		Cluster [16]uint8
	}
	const completed = nvml.GPU_FABRIC_STATE_COMPLETED
	tests := map[string]struct {
		server   string
		gpu      int
		progress simhw.FabricProgress
		want     answer
	}{
		"NVSwitches":  {server: "dgx-h100", want: answer{State: completed, Joined: true}},
		"a rack":      {server: "gb200-tray", want: answer{State: completed, Joined: true, Clique: 2, Cluster: rack.ClusterUUID("gb200-tray")}},
		"not started": {server: "gb200-tray", progress: simhw.FabricNotStarted, want: answer{State: nvml.GPU_FABRIC_STATE_NOT_STARTED, Joined: true}},
		"in progress": {server: "gb200-tray", progress: simhw.FabricInProgress, want: answer{State: nvml.GPU_FABRIC_STATE_IN_PROGRESS, Joined: true}},
		"failed":      {server: "gb200-tray", progress: simhw.FabricFailed, want: answer{State: completed}},
		"none":        {server: "mixed", want: answer{State: nvml.GPU_FABRIC_STATE_NOT_SUPPORTED, Joined: true}},
		"none, ever":  {server: "mixed", progress: simhw.FabricInProgress, want: answer{State: nvml.GPU_FABRIC_STATE_NOT_SUPPORTED, Joined: true}},
		"too old":     {server: "mixed", gpu: 1, want: answer{Ret: nvml.ERROR_NOT_SUPPORTED}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, tc.server)
			if err := e.ChangeHealth(tc.gpu, func(h *simhw.Health) { h.Fabric = tc.progress }); err != nil {
				t.Fatal(err)
			}
			asked := nvml.GpuFabricInfo_v3{Version: version[nvml.GpuFabricInfo_v3](3)}
			ret, out := invoke(t, e, everyNode, "nvmlDeviceGetGpuFabricInfoV", gpuArgument(tc.gpu), filled(bytesOf(&asked)))
			got := answer{Ret: ret}
			if ret == nvml.SUCCESS {
				var info nvml.GpuFabricInfo_v3
				copy(bytesOf(&info), out[1])
				got = answer{ret, info.State, nvml.Return(info.Status) == nvml.SUCCESS, info.CliqueId, info.ClusterUuid}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fabric (-want +got):\n%s", diff)
			}
		})
	}
}
