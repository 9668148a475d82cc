package serve

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// processes are those that a device handle shows: of the GPU all, but with MIG on
// only to who may see all of MIG; of a MIG device its own (nvml.h).
func (c *call) processes() ([]simhw.Process, nvml.Return) {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	if d.mig == nil && d.state.MIGEnabled && !c.view.seesAllMIG() {
		return nil, nvml.ERROR_NO_PERMISSION
	}
	var out []simhw.Process
	for _, p := range d.state.Processes {
		if d.mig == nil || p.GPUInstance == d.mig.Instance.ID && p.ComputeInstance == d.mig.Compute.ID {
			out = append(out, p)
		}
	}
	return out, nvml.SUCCESS
}

// writeList fills an array that has room for *count elements. With too little
// room it says how much is needed; an empty list fits anywhere.
func writeList[T any](c *call, array, count int, list []T) nvml.Return {
	if c.null(count) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	room := int(c.u32(count))
	if ret := c.writeU32(count, uint32(len(list))); ret != nvml.SUCCESS {
		return ret
	}
	if len(list) > room {
		c.failing = c.outputs
		return nvml.ERROR_INSUFFICIENT_SIZE
	}
	if len(list) == 0 {
		return nvml.SUCCESS
	}
	var b []byte
	for i := range list {
		b = append(b, bytesOf(&list[i])...)
	}
	return c.write(array, b)
}

// runningV1 lists processes in the form of the unversioned call.
func runningV1(c *call) nvml.Return {
	processes, ret := c.processes()
	if ret != nvml.SUCCESS {
		return ret
	}
	var out []nvml.ProcessInfo_v1
	for _, p := range processes {
		out = append(out, nvml.ProcessInfo_v1{Pid: uint32(p.PID), UsedGpuMemory: uint64(p.MemoryMiB) << 20})
	}
	return writeList(c, 2, 1, out)
}

// running lists them in the form of versions 2 and 3, which are alike.
func running(c *call) nvml.Return {
	processes, ret := c.processes()
	if ret != nvml.SUCCESS {
		return ret
	}
	var out []nvml.ProcessInfo
	for _, p := range processes {
		out = append(out, nvml.ProcessInfo{
			Pid: uint32(p.PID), UsedGpuMemory: uint64(p.MemoryMiB) << 20,
			GpuInstanceId: uint32(p.GPUInstance), ComputeInstanceId: uint32(p.ComputeInstance),
		})
	}
	return writeList(c, 2, 1, out)
}

// noneRunning is for graphics and MPS: simulated processes only compute.
func noneRunning(c *call) nvml.Return {
	if _, ret := c.processes(); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, 0)
}

// processName knows those that use a GPU that the client sees.
func processName(c *call) nvml.Return {
	for _, g := range c.view.gpus(c.engine.Snapshot()) {
		for _, p := range g.Processes {
			if uint32(p.PID) == c.u32(0) {
				return c.writeText(1, p.Name)
			}
		}
	}
	return nvml.ERROR_NOT_FOUND
}

// Every process keeps the GPU busy; of the memory's bandwidth it takes half.
const smPercent, memoryPercent = 100, 50

// processUtilization has a sample of every process, taken now. NOT_SUPPORTED with
// MIG on (nvml.h).
func processUtilization(c *call) nvml.Return {
	d, ret := c.withoutMIG()
	if ret != nvml.SUCCESS {
		return ret
	}
	now := uint64(time.Now().UnixMicro())
	if len(d.state.Processes) == 0 || now <= c.u64(3) {
		return nvml.ERROR_NOT_FOUND
	}
	var out []nvml.ProcessUtilizationSample
	for _, p := range d.state.Processes {
		out = append(out, nvml.ProcessUtilizationSample{Pid: uint32(p.PID), TimeStamp: now, SmUtil: smPercent, MemUtil: memoryPercent})
	}
	return writeList(c, 1, 2, out)
}

func accountingMode(c *call) nvml.Return {
	return c.writeSetting(func(s *simhw.Settings) *bool { return &s.Accounting })
}

func setAccountingMode(c *call) nvml.Return {
	return c.changeSetting(func(s *simhw.Settings) *bool { return &s.Accounting })
}

func clearAccounting(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.ClearAccounts(d.gpu)
}

func accountingBuffer(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if _, ret := c.engine.Accounts(d.gpu); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, simhw.AccountingBufferSize)
}

func accountingPIDs(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	accounts, ret := c.engine.Accounts(d.gpu)
	if ret != nvml.SUCCESS {
		return ret
	}
	var pids []uint32
	for _, a := range accounts {
		pids = append(pids, uint32(a.PID))
	}
	return writeList(c, 2, 1, pids)
}

// account is what is kept of a process, the latest with that id.
func (c *call) account(pid uint32) (simhw.Account, nvml.Return) {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return simhw.Account{}, ret
	}
	accounts, ret := c.engine.Accounts(d.gpu)
	if ret != nvml.SUCCESS {
		return simhw.Account{}, ret
	}
	for i := len(accounts) - 1; i >= 0; i-- {
		if uint32(accounts[i].PID) == pid {
			return accounts[i], nvml.SUCCESS
		}
	}
	return simhw.Account{}, nvml.ERROR_NOT_FOUND
}

// lasted is in milliseconds, and 0 while the process runs (nvml.h).
func lasted(a simhw.Account) uint64 {
	if a.Running() {
		return 0
	}
	return uint64(a.Ended.Sub(a.Started).Milliseconds())
}

func accountingStats(c *call) nvml.Return {
	a, ret := c.account(c.u32(1))
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 2, &nvml.AccountingStats{
		GpuUtilization: smPercent, MemoryUtilization: memoryPercent, MaxMemoryUsage: uint64(a.MemoryMiB) << 20,
		Time: lasted(a), StartTime: uint64(a.Started.UnixMicro()), IsRunning: flag(a.Running()),
	})
}

// accountingStatsV2 reads the process's id from the struct that it fills.
func accountingStatsV2(c *call) nvml.Return {
	a, ret := c.account(c.u32(1))
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &nvml.AccountingStats_v2{
		Pid: uint32(a.PID), IsRunning: flag(a.Running()),
		GpuUtilization: smPercent, MemoryUtilization: memoryPercent, MaxMemoryUsage: uint64(a.MemoryMiB) << 20,
		SampleCount: 1, SumGpuUtil: smPercent, SumFbUtil: memoryPercent,
		Time: lasted(a), StartTime: uint64(a.Started.UnixMicro()),
	})
}
