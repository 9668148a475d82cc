package clients_test

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// What comes in arrays, in versioned structs and in several results arrives
// through the library as it was sent.
func TestTelemetry(t *testing.T) {
	n := simnode.Start(t, "dgx-h100")
	lib := open(t, n)
	d, ret := lib.DeviceGetHandleByIndex(0)
	check(t, "DeviceGetHandleByIndex", ret)
	check(t, "SetAccountingMode", d.SetAccountingMode(nvml.FEATURE_ENABLED))
	for _, pid := range []string{"--pid=71", "--pid=72"} {
		if _, err := n.Ctl("load", "--gpu=0", "--name=train", "--memory-mib=256", pid); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	tell := func(name string, ret nvml.Return, values ...any) {
		check(t, name, ret)
		got[name] = fmt.Sprint(values...)
	}
	processes, ret := d.GetComputeRunningProcesses()
	tell("processes", ret, processes)
	samples, ret := d.GetProcessUtilization(0)
	tell("process utilization", ret, len(samples), samples[0].Pid, samples[1].SmUtil)
	name, ret := lib.SystemGetProcessName(72)
	tell("process name", ret, name)
	pids, ret := d.GetAccountingPids()
	tell("accounting pids", ret, pids)
	stats, ret := d.GetAccountingStats_v2(71)
	tell("accounting", ret, stats.IsRunning, stats.Time, stats.MaxMemoryUsage>>20)
	memory, ret := d.GetMemoryInfo()
	tell("memory", ret, memory.Used>>20, memory.Free>>20)
	near, ret := d.GetTopologyNearestGpus(nvml.TOPOLOGY_SYSTEM)
	tell("GPUs of the other socket", ret, len(near))
	last, ret := near[3].GetIndex()
	tell("the last of them", ret, last)
	status, ret := d.GetP2PStatus(near[0], nvml.P2P_CAPS_INDEX_NVLINK)
	tell("NVLink to the first", ret, status)
	fabric, ret := d.GetGpuFabricInfoV().V3()
	tell("fabric", ret, fabric.State, fabric.HealthSummary)
	older, ret := d.GetGpuFabricInfoV().V2()
	tell("fabric, version 2", ret, older.State, older.HealthMask == fabric.HealthMask)
	temperature, ret := d.GetTemperatureV().V1()
	tell("temperature", ret, temperature.Temperature)
	low, high, ret := d.GetPowerManagementLimitConstraints()
	tell("power limits", ret, low, high)
	cpus, ret := d.GetCpuAffinity(224)
	tell("CPUs", ret, fmt.Sprintf("%x", cpus[:4]))
	utilization, ret := d.GetUtilizationRates()
	tell("utilization", ret, utilization.Gpu)
	want := map[string]string{
		"processes":                "[{71 268435456 4294967295 4294967295} {72 268435456 4294967295 4294967295}]",
		"process utilization":      "2 71 100",
		"process name":             "train",
		"accounting pids":          "[71 72]",
		"accounting":               "1 0 256",
		"memory":                   "512 81047",
		"GPUs of the other socket": "4",
		"the last of them":         "7",
		"NVLink to the first":      "0",
		"fabric":                   "3 1",
		"fabric, version 2":        "3 true",
		"temperature":              "65",
		"power limits":             "200000 700000",
		"CPUs":                     "[ffffffffffffff ffff000000000000 ffffffffff 0]",
		"utilization":              "100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NVML tells (-want +got):\n%s", diff)
	}
}
