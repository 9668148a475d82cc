package serve

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// slice makes a MIG device on GPU 0, with MIG on, and returns its handle.
func slice(t *testing.T, e *simhw.Engine) (simhw.InstanceState, argument) {
	t.Helper()
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatalf("MIG mode: %d", ret)
	}
	in, ret := e.CreateGPUInstance(0, 19, &mig.Placement{Start: 2, Size: 1})
	if ret != nvml.SUCCESS {
		t.Fatalf("create GPU instance: %d", ret)
	}
	ci, ret := e.CreateComputeInstance(simhw.Handle{GPU: 0, Serial: in.Serial}, 0, nil)
	if ret != nvml.SUCCESS {
		t.Fatalf("create compute instance: %d", ret)
	}
	return in, handle(newToken(kindMIG, 0, ci.Serial))
}

func train(gi, ci int) simhw.Process {
	return simhw.Process{PID: 4242, Name: "train", MemoryMiB: 512, GPUInstance: gi, ComputeInstance: ci}
}

// What real NVML refuses with MIG on is refused.
func TestRefusedWithMIG(t *testing.T) {
	tests := map[string][]argument{
		"nvmlDeviceGetUtilizationRates":   {pointer(8)},
		"nvmlDeviceGetEncoderUtilization": {pointer(4), pointer(4)},
		"nvmlDeviceGetProcessUtilization": {pointer(0xffff), count(4), u64(0)},
		"nvmlDeviceGetRemappedRows":       {pointer(4), pointer(4), pointer(4), pointer(4)},
		"nvmlDeviceGetMemoryErrorCounter": {u32(1), u32(0), u32(2), pointer(8)},
	}
	for function, arguments := range tests {
		t.Run(function, func(t *testing.T) {
			e := engineOf(t, "mixed")
			if _, err := e.Load(0, train(simhw.NoInstance, simhw.NoInstance)); err != nil {
				t.Fatal(err)
			}
			arguments = append([]argument{gpuArgument(0)}, arguments...)
			if ret, _ := invoke(t, e, everyNode, function, arguments...); ret != nvml.SUCCESS {
				t.Errorf("with MIG off: %d", ret)
			}
			if err := e.Unload(0, 0); err != nil {
				t.Fatal(err)
			}
			slice(t, e)
			if ret, _ := invoke(t, e, everyNode, function, arguments...); ret != nvml.ERROR_NOT_SUPPORTED {
				t.Errorf("with MIG on: %d, want NOT_SUPPORTED", ret)
			}
		})
	}
}

func TestSensors(t *testing.T) {
	e := engineOf(t, "mixed")
	tests := map[string]struct {
		arguments []argument
		want      uint64
	}{
		"nvmlDeviceGetPowerUsage":                {nil, 70_000},
		"nvmlDeviceGetEnforcedPowerLimit":        {nil, 700_000},
		"nvmlDeviceGetTemperature":               {[]argument{u32(0)}, 30},
		"nvmlDeviceGetClockInfo":                 {[]argument{u32(2)}, 2619},
		"nvmlDeviceGetMaxClockInfo":              {[]argument{u32(1)}, 1980},
		"nvmlDeviceGetCurrPcieLinkGeneration":    {nil, 5},
		"nvmlDeviceGetMaxPcieLinkWidth":          {nil, 16},
		"nvmlDeviceGetPerformanceState":          {nil, 0},
		"nvmlDeviceGetSupportedEventTypes":       {nil, simhw.SupportedEvents},
		"nvmlDeviceGetCurrentClocksEventReasons": {nil, nvml.ClocksEventReasonGpuIdle},
		"nvmlDeviceGetPersistenceMode":           {nil, 0},
		"nvmlDeviceGetTotalEccErrors":            {[]argument{u32(1), u32(0)}, 0},
	}
	for function, tc := range tests {
		t.Run(function, func(t *testing.T) {
			ret, got := askNumber(t, e, function, append([]argument{gpuArgument(0)}, tc.arguments...)...)
			if ret != nvml.SUCCESS || got != tc.want {
				t.Errorf("%d, %d, want %d", ret, got, tc.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	e := engineOf(t, "mixed")
	tests := []struct {
		set, get string
		value    uint32
		ret      nvml.Return
		want     uint64
	}{
		{"nvmlDeviceSetPersistenceMode", "nvmlDeviceGetPersistenceMode", 1, nvml.SUCCESS, 1},
		{"nvmlDeviceSetPersistenceMode", "nvmlDeviceGetPersistenceMode", 2, nvml.ERROR_INVALID_ARGUMENT, 1},
		{"nvmlDeviceSetAccountingMode", "nvmlDeviceGetAccountingMode", 1, nvml.SUCCESS, 1},
		{"nvmlDeviceSetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimit", 300_000, nvml.SUCCESS, 300_000},
		{"nvmlDeviceSetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimit", 199_000, nvml.ERROR_INVALID_ARGUMENT, 300_000},
		{"nvmlDeviceSetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimit", 700_001, nvml.ERROR_INVALID_ARGUMENT, 300_000},
	}
	for _, tc := range tests {
		if ret, _ := invoke(t, e, everyNode, tc.set, gpuArgument(0), u32(tc.value)); ret != tc.ret {
			t.Errorf("%s %d: %d, want %d", tc.set, tc.value, ret, tc.ret)
		}
		if _, got := askNumber(t, e, tc.get, gpuArgument(0)); got != tc.want {
			t.Errorf("after %s %d: %d, want %d", tc.set, tc.value, got, tc.want)
		}
		withoutRight := "dev nvidiactl 195 255\ndev nvidia0 195 0\n"
		if ret, _ := invoke(t, e, withoutRight, tc.set, gpuArgument(0), u32(tc.value)); ret != nvml.ERROR_NO_PERMISSION {
			t.Errorf("%s without the right: %d", tc.set, ret)
		}
	}
}

func TestProcesses(t *testing.T) {
	e := engineOf(t, "mixed")
	in, device := slice(t, e)
	if _, err := e.Load(0, train(in.ID, 0)); err != nil {
		t.Fatal(err)
	}
	g := e.Snapshot().GPUs[0]
	const function = "nvmlDeviceGetComputeRunningProcesses_v3"
	inContainer := "dev nvidiactl 195 255\ndev nvidia0 195 0\n" + capLine(simhw.GPUInstanceMinor(g.Minor, in.ID)) + capLine(simhw.ComputeInstanceMinor(g.Minor, in.ID, 0))
	tests := map[string]struct {
		nodes  string
		device argument
		room   uint32
		ret    nvml.Return
		count  uint64
	}{
		"all of the GPU":          {everyNode, gpuArgument(0), 4, nvml.SUCCESS, 1},
		"no room":                 {everyNode, gpuArgument(0), 0, nvml.ERROR_INSUFFICIENT_SIZE, 1},
		"the MIG device":          {everyNode, device, 4, nvml.SUCCESS, 1},
		"other GPU":               {everyNode, gpuArgument(1), 0, nvml.SUCCESS, 0},
		"container, GPU":          {inContainer, gpuArgument(0), 4, nvml.ERROR_NO_PERMISSION, 0},
		"container, its own part": {inContainer, device, 4, nvml.SUCCESS, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ret, out := invoke(t, e, tc.nodes, function, tc.device, count(tc.room), pointer(tc.room*24))
			if ret != tc.ret || written(out[1]) != tc.count {
				t.Fatalf("%d, %d processes, want %d, %d", ret, written(out[1]), tc.ret, tc.count)
			}
			if ret != nvml.SUCCESS || tc.count == 0 {
				return
			}
			var got nvml.ProcessInfo
			copy(bytesOf(&got), out[2])
			want := nvml.ProcessInfo{Pid: 4242, UsedGpuMemory: 512 << 20, GpuInstanceId: uint32(in.ID), ComputeInstanceId: 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("process (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGPM(t *testing.T) {
	e := engineOf(t, "mixed")
	for gpu, want := range map[int]uint32{0: 1, 1: 0} {
		asked := gpmSupport{version: nvml.GPM_SUPPORT_VERSION}
		_, out := invoke(t, e, everyNode, "nvmlGpmQueryDeviceSupport", gpuArgument(gpu), filled(bytesOf(&asked)))
		var got gpmSupport
		copy(bytesOf(&got), out[1])
		if got.supported != want {
			t.Errorf("GPU %d: supported %d, want %d", gpu, got.supported, want)
		}
	}
	in, device := slice(t, e)
	if _, err := e.Load(0, train(in.ID, 0)); err != nil {
		t.Fatal(err)
	}
	samples := make([]token, 2)
	for i := range samples {
		_, out := invoke(t, e, everyNode, "nvmlGpmSampleAlloc", pointer(8))
		samples[i] = token(written(out[0]))
		if ret, _ := invoke(t, e, everyNode, "nvmlGpmSampleGet", device, handle(samples[i])); ret != nvml.SUCCESS {
			t.Fatalf("sample: %d", ret)
		}
	}
	m := gpmMetrics{version: nvml.GPM_METRICS_GET_VERSION, count: 3, first: samples[0], second: samples[1]}
	for i, id := range []nvml.GpmMetricId{nvml.GPM_METRIC_SM_UTIL, nvml.GPM_METRIC_DRAM_BW_UTIL, nvml.GPM_METRIC_HOSTMEM_CACHE_HIT} {
		m.metrics[i].id = uint32(id)
	}
	ret, out := invoke(t, e, everyNode, "nvmlGpmMetricsGet", filled(bytesOf(&m)))
	if ret != nvml.SUCCESS {
		t.Fatalf("metrics: %d", ret)
	}
	copy(bytesOf(&m), out[0])
	if a, b, c := m.metrics[0], m.metrics[1], m.metrics[2]; a.value < 99 || b.value < 49 || a.ret != 0 || b.ret != 0 || c.ret != uint32(nvml.ERROR_NOT_SUPPORTED) {
		t.Errorf("metrics %+v", m.metrics[:3])
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlGpmMigSampleGet", gpuArgument(0), u32(uint32(in.ID)), handle(samples[0])); ret != nvml.SUCCESS {
		t.Errorf("sample of the GPU instance: %d", ret)
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlGpmSampleGet", gpuArgument(1), handle(samples[0])); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("sample of an L40S: %d", ret)
	}
}
