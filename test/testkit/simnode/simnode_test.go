package simnode_test

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// open initializes the node's library for the length of a test.
func open(t *testing.T, n *simnode.Node) nvml.Interface {
	t.Helper()
	lib := nvml.New(nvml.WithLibraryPath(n.Library))
	check(t, "Init", lib.Init())
	t.Cleanup(func() { check(t, "Shutdown", lib.Shutdown()) })
	return lib
}

func check(t *testing.T, what string, got nvml.Return) { expect(t, what, got, nvml.SUCCESS) }

func expect(t *testing.T, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %d (%v), want %d", what, got, got, want)
	}
}

// gpu is a handle, with MIG on if the GPU can.
func gpu(t *testing.T, lib nvml.Interface, index int) nvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(index)
	check(t, "DeviceGetHandleByIndex", ret)
	return d
}

func enable(t *testing.T, d nvml.Device) {
	t.Helper()
	activation, ret := nvml.Device.SetMigMode(d, nvml.DEVICE_MIG_ENABLE)
	check(t, "SetMigMode", ret)
	check(t, "activation", activation)
}

func TestDiscovery(t *testing.T) {
	n := simnode.Start(t, "dgx-h100")
	lib := open(t, n)
	version, ret := lib.SystemGetDriverVersion()
	check(t, "SystemGetDriverVersion", ret)
	cuda, ret := lib.SystemGetCudaDriverVersion()
	check(t, "SystemGetCudaDriverVersion", ret)
	own, ret := lib.SystemGetNVMLVersion()
	check(t, "SystemGetNVMLVersion", ret)
	if version != "580.95.05" || cuda != 13000 || own != "13.580.95.05" {
		t.Errorf("versions %s, %d, %s", version, cuda, own)
	}
	count, ret := lib.DeviceGetCount()
	check(t, "DeviceGetCount", ret)
	want := n.Server.Node()
	if count != len(want.GPUs) {
		t.Fatalf("%d GPUs, want %d", count, len(want.GPUs))
	}
	for i, w := range want.GPUs {
		d := gpu(t, lib, i)
		uuid, _ := d.GetUUID()
		name, _ := d.GetName()
		minor, _ := d.GetMinorNumber()
		index, _ := d.GetIndex()
		memory, _ := d.GetMemoryInfo()
		memory2, ret := d.GetMemoryInfo_v2()
		check(t, "GetMemoryInfo_v2", ret)
		major, small, _ := d.GetCudaComputeCapability()
		architecture, _ := d.GetArchitecture()
		brand, _ := d.GetBrand()
		pci, ret := d.GetPciInfo()
		check(t, "GetPciInfo", ret)
		got := fmt.Sprint(uuid, name, minor, index, memory.Total>>20, memory2.Total>>20, major, ".", small, architecture, brand, pci.Bus)
		var bus int
		if _, err := fmt.Sscanf(string(w.PCI), "0000:%x", &bus); err != nil {
			t.Fatal(err)
		}
		expected := fmt.Sprint(w.UUID, w.ProductName, w.Minor, i, w.MemoryMiB, w.MemoryMiB, 9, ".", 0, nvml.DeviceArchitecture(nvml.DEVICE_ARCH_HOPPER), nvml.BRAND_NVIDIA, bus)
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("GPU %d (-want +got):\n%s", i, diff)
		}
		again, ret := lib.DeviceGetHandleByUUID(w.UUID)
		check(t, "DeviceGetHandleByUUID", ret)
		byPCI, ret := lib.DeviceGetHandleByPciBusId(string(w.PCI))
		check(t, "DeviceGetHandleByPciBusId", ret)
		serial, ret := d.GetSerial()
		check(t, "GetSerial", ret)
		bySerial, ret := lib.DeviceGetHandleBySerial(serial)
		check(t, "DeviceGetHandleBySerial", ret)
		for _, h := range []nvml.Device{again, byPCI, bySerial} {
			if u, _ := h.GetUUID(); u != w.UUID {
				t.Errorf("looked up %s, got %s", w.UUID, u)
			}
		}
	}
	_, ret = lib.DeviceGetHandleByIndex(8)
	expect(t, "index 8", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = lib.DeviceGetHandleByUUID("GPU-nobody")
	expect(t, "unknown UUID", ret, nvml.ERROR_NOT_FOUND)
	_, ret = lib.DeviceGetHandleByPciBusId("0000:00:00.0")
	expect(t, "unknown address", ret, nvml.ERROR_NOT_FOUND)
}

func TestProfiles(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d := gpu(t, open(t, n), 0)
	var got []string
	for enum := 0; ; enum++ {
		info, ret := d.GetGpuInstanceProfileInfo(enum)
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		if ret == nvml.ERROR_INVALID_ARGUMENT {
			break
		}
		check(t, "GetGpuInstanceProfileInfo", ret)
		placements, ret := d.GetGpuInstancePossiblePlacements(&info)
		check(t, "GetGpuInstancePossiblePlacements", ret)
		got = append(got, fmt.Sprintf("%d: id %d, %d slices, %d times, %d MiB, %d SMs, %d CE, %d DEC, %d OFA, %v",
			enum, info.Id, info.SliceCount, info.InstanceCount, info.MemorySizeMB, info.MultiprocessorCount, info.CopyEngineCount, info.DecoderCount, info.OfaCount, placements))
	}
	want := []string{
		"0: id 19, 1 slices, 7 times, 9984 MiB, 16 SMs, 1 CE, 1 DEC, 0 OFA, [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
		"1: id 14, 2 slices, 3 times, 20096 MiB, 32 SMs, 2 CE, 2 DEC, 0 OFA, [{0 2} {2 2} {4 2}]",
		"2: id 9, 3 slices, 2 times, 40448 MiB, 60 SMs, 3 CE, 3 DEC, 0 OFA, [{0 4} {4 4}]",
		"3: id 5, 4 slices, 1 times, 40448 MiB, 64 SMs, 4 CE, 4 DEC, 0 OFA, [{0 4}]",
		"4: id 0, 7 slices, 1 times, 81152 MiB, 132 SMs, 8 CE, 7 DEC, 1 OFA, [{0 8}]",
		"7: id 20, 1 slices, 1 times, 9984 MiB, 16 SMs, 1 CE, 1 DEC, 1 OFA, [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
		"9: id 15, 1 slices, 4 times, 20096 MiB, 26 SMs, 1 CE, 1 DEC, 0 OFA, [{0 2} {2 2} {4 2} {6 2}]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	_, ret := d.GetGpuInstanceProfileInfoV(0).V3()
	expect(t, "versioned with MIG off", ret, nvml.ERROR_NOT_SUPPORTED)
	enable(t, d)
	v2, ret := d.GetGpuInstanceProfileInfoV(nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2).V2()
	check(t, "V2", ret)
	v3, ret := d.GetGpuInstanceProfileInfoV(nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1).V3()
	check(t, "V3", ret)
	if text(v2.Name[:]) != "MIG 1g.20gb" || text(v3.Name[:]) != "MIG 1g.10gb+me" || v2.MemorySizeMB != 20096 {
		t.Errorf("names %q, %q", text(v2.Name[:]), text(v3.Name[:]))
	}
}

func text(chars []int8) string {
	var b []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func TestLifecycle(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	d := gpu(t, lib, 0)
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	check(t, "profile", ret)
	at := nvml.GpuInstancePlacement{Start: 4, Size: 4}
	_, ret = d.CreateGpuInstanceWithPlacement(&info, &at)
	expect(t, "create with MIG off", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstances(&info)
	expect(t, "list with MIG off", ret, nvml.ERROR_NOT_SUPPORTED)
	enable(t, d)
	gi, ret := d.CreateGpuInstanceWithPlacement(&info, &at)
	check(t, "create", ret)
	_, ret = d.CreateGpuInstanceWithPlacement(&info, &at)
	expect(t, "create at the same place", ret, nvml.ERROR_INSUFFICIENT_RESOURCES)
	gotInfo, ret := gi.GetInfo()
	check(t, "GetInfo", ret)
	id := int(gotInfo.Id)
	if id != 1 && id != 2 || gotInfo.ProfileId != 9 || gotInfo.Placement != at {
		t.Errorf("GPU instance %+v", gotInfo)
	}
	if u, _ := gotInfo.Device.GetUUID(); u != n.State().GPUs[0].UUID {
		t.Errorf("parent %s", u)
	}
	ciInfo, ret := gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	check(t, "compute profile", ret)
	ci, ret := gi.CreateComputeInstance(&ciInfo)
	check(t, "create compute instance", ret)
	expect(t, "destroy in use", gi.Destroy(), nvml.ERROR_IN_USE)
	got, ret := ci.GetInfo()
	check(t, "compute GetInfo", ret)
	uuid, ret := got.Device.GetUUID()
	check(t, "MIG UUID", ret)
	m, ret := lib.DeviceGetHandleByUUID(uuid)
	check(t, "MIG by UUID", ret)
	checkMIGDevice(t, d, m, id)
	all, ret := d.GetGpuInstances(&info)
	check(t, "GetGpuInstances", ret)
	if len(all) != 1 {
		t.Errorf("%d GPU instances", len(all))
	}
	same, ret := d.GetGpuInstanceById(id)
	check(t, "GetGpuInstanceById", ret)
	inside, ret := same.GetComputeInstances(&ciInfo)
	check(t, "GetComputeInstances", ret)
	if len(inside) != 1 {
		t.Errorf("%d compute instances", len(inside))
	}
	activation, ret := d.SetMigMode(nvml.DEVICE_MIG_DISABLE)
	expect(t, "MIG off with instances", ret, nvml.ERROR_IN_USE)
	expect(t, "activation", activation, nvml.ERROR_IN_USE)
	check(t, "destroy compute instance", ci.Destroy())
	_, ret = m.GetName()
	expect(t, "name of a MIG device that is gone", ret, nvml.ERROR_INVALID_ARGUMENT)
	check(t, "destroy", gi.Destroy())
	expect(t, "destroy again", gi.Destroy(), nvml.ERROR_INVALID_ARGUMENT)
	_, ret = d.GetGpuInstanceById(id)
	expect(t, "by id when gone", ret, nvml.ERROR_NOT_FOUND)
}

func checkMIGDevice(t *testing.T, parent, m nvml.Device, id int) {
	t.Helper()
	is, ret := m.IsMigDeviceHandle()
	check(t, "IsMigDeviceHandle", ret)
	name, _ := m.GetName()
	gi, _ := m.GetGpuInstanceId()
	ci, _ := m.GetComputeInstanceId()
	memory, ret := m.GetMemoryInfo()
	check(t, "GetMemoryInfo of a MIG device", ret)
	a, ret := m.GetAttributes()
	check(t, "GetAttributes", ret)
	got := fmt.Sprint(is, name, gi, ci, memory.Total>>20, a.MultiprocessorCount, a.GpuInstanceSliceCount, a.ComputeInstanceSliceCount, a.MemorySizeMB)
	if want := fmt.Sprint(true, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", id, 0, 40448, 60, 3, 3, 40448); got != want {
		t.Errorf("MIG device %s, want %s", got, want)
	}
	up, ret := m.GetDeviceHandleFromMigDeviceHandle()
	check(t, "parent", ret)
	a1, _ := up.GetUUID()
	if a2, _ := parent.GetUUID(); a1 != a2 {
		t.Errorf("parent %s, want %s", a1, a2)
	}
	most, ret := parent.GetMaxMigDeviceCount()
	check(t, "GetMaxMigDeviceCount", ret)
	byIndex, ret := parent.GetMigDeviceHandleByIndex(0)
	check(t, "GetMigDeviceHandleByIndex", ret)
	u1, _ := byIndex.GetUUID()
	if u2, _ := m.GetUUID(); u1 != u2 || most != 7 {
		t.Errorf("first of %d is %s, want %s", most, u1, u2)
	}
	_, ret = parent.GetMigDeviceHandleByIndex(1)
	expect(t, "second MIG device", ret, nvml.ERROR_NOT_FOUND)
}

func TestNotServed(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	_, ret := gpu(t, lib, 0).GetFanSpeed()
	expect(t, "GetFanSpeed", ret, nvml.ERROR_NOT_SUPPORTED)
	l40s := gpu(t, lib, 1)
	_, _, ret = l40s.GetMigMode()
	expect(t, "MIG mode of an L40S", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = l40s.GetGpuInstanceProfileInfo(0)
	expect(t, "profile of an L40S", ret, nvml.ERROR_NOT_SUPPORTED)
	check(t, "SetComputeMode", l40s.SetComputeMode(nvml.COMPUTEMODE_EXCLUSIVE_PROCESS))
	if mode, _ := l40s.GetComputeMode(); mode != nvml.COMPUTEMODE_EXCLUSIVE_PROCESS {
		t.Errorf("compute mode %d", mode)
	}
}

func TestUninitialized(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := nvml.New(nvml.WithLibraryPath(n.Library))
	check(t, "Init", lib.Init())
	check(t, "Init again", lib.Init())
	check(t, "Shutdown", lib.Shutdown())
	_, ret := lib.DeviceGetCount()
	check(t, "count after one of two shutdowns", ret)
	check(t, "Shutdown again", lib.Shutdown())
	_, ret = lib.DeviceGetCount()
	expect(t, "count after all shutdowns", ret, nvml.ERROR_UNINITIALIZED)
	check(t, "Init anew", lib.Init())
	check(t, "last Shutdown", lib.Shutdown())
}

func TestManyClients(t *testing.T) {
	n := simnode.Start(t, "dgx-h100", simnode.WithLatency(0.1))
	lib := open(t, n)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() { useGPU(t, lib, i) })
	}
	for range 4 {
		clients.Go(func() {
			if out, err := exec.Command(n.SMI, "-L").CombinedOutput(); err != nil {
				t.Errorf("nvidia-smi: %v: %s", err, out)
			}
		})
	}
	clients.Wait()
	for _, g := range n.State().GPUs {
		if len(g.Instances) != 7 {
			t.Errorf("GPU %d has %d instances, want 7", g.Index, len(g.Instances))
		}
	}
}

// useGPU fills a GPU; it reports, since it is not the test's own goroutine.
func useGPU(t *testing.T, lib nvml.Interface, index int) {
	err := func() error {
		d, ret := lib.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			return ret
		}
		if _, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE); ret != nvml.SUCCESS {
			return ret
		}
		info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
		if ret != nvml.SUCCESS {
			return ret
		}
		for range 7 {
			gi, ret := d.CreateGpuInstance(&info)
			if ret != nvml.SUCCESS {
				return ret
			}
			if _, ret := gi.GetInfo(); ret != nvml.SUCCESS {
				return ret
			}
		}
		if _, ret := d.CreateGpuInstance(&info); !errors.Is(ret, nvml.ERROR_INSUFFICIENT_RESOURCES) {
			return fmt.Errorf("an eighth instance: %w", ret)
		}
		return nil
	}()
	if err != nil {
		t.Errorf("GPU %d: %v", index, err)
	}
}
