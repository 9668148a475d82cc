package simhw

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ProcessKind is in which of NVML's lists a process is.
type ProcessKind string

// The lists of processes that NVML has.
const (
	ComputeProcess  ProcessKind = "compute"
	GraphicsProcess ProcessKind = "graphics"
	MPSProcess      ProcessKind = "mps"
)

// Process is a program that uses a GPU, or an instance on it.
type Process struct {
	PID  uint32
	Name string
	Kind ProcessKind
	// GI and CI are the ids of the instances that it uses, or NoInstance.
	GI, CI uint32
	// MemoryMiB is what it has allocated, in MiB.
	MemoryMiB int64
	// Utilization is how busy it keeps what it uses, in percent.
	Utilization int
}

// gauges is what changes by itself on a GPU: its processes, and what their work
// sums up to. It is in memory only; a restart of the daemon counts anew, as a
// reload of the driver does.
type gauges struct {
	mu        sync.Mutex
	processes map[int][]Process
	meters    map[int]*meter
	accounts  map[int][]Account
	samples   gpmSamples
}

// meter sums up the work of a GPU. Readings depend on nothing but the processes,
// so that they are steady.
type meter struct {
	until      time.Time
	millijoule float64
	// busy are seconds of full use, of GPU instances by their id and of the GPU
	// under NoInstance.
	busy map[uint32]float64
}

// Reading is what the sensors of a GPU show.
type Reading struct {
	// Busy and MemoryBusy are in percent, of the time and of the memory's bandwidth.
	Busy, MemoryBusy float64
	// PowerMilliwatts and LimitMilliwatts are 0 where the catalogue knows no limit.
	PowerMilliwatts, LimitMilliwatts, DefaultLimitMilliwatts uint32
	// EnergyMillijoules counts since the daemon was started.
	EnergyMillijoules uint64
	// TemperatureC and MemoryTemperatureC are in degrees Celsius.
	TemperatureC, MemoryTemperatureC uint32
	// SMClockMHz and MemoryClockMHz are 0 where the catalogue knows no clocks.
	SMClockMHz, MemoryClockMHz uint32
}

// Shapes of the readings. A GPU without work draws a tenth of its limit and is at
// 30 °C, as idle data-centre GPUs print; that a busy one comes to nine tenths and
// 65 °C is made up, and so is the share of the memory's bandwidth.
const (
	idlePower, busyPower                   = 0.1, 0.8
	idleTemperature, busyTemperature       = 30, 35
	memoryHotter                           = 8
	memoryShare                            = 0.5
	idleSMClockMHz                         = 345
	overheadMiBPerFourSlices         int64 = 11
)

// Processes are those of a GPU, in the order in which they were given.
func (e *Engine) Processes(gpu int) []Process {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	return slices.Clone(e.gauges.processes[gpu])
}

// SetProcesses replaces the processes of a GPU.
func (e *Engine) SetProcesses(gpu int, processes []Process) error {
	if err := e.checkGPU(gpu); err != nil {
		return err
	}
	for _, p := range processes {
		if p.Utilization < 0 || p.Utilization > 100 || p.MemoryMiB < 0 {
			return fmt.Errorf("process %d: utilization %d %% and memory %d MiB are not possible", p.PID, p.Utilization, p.MemoryMiB)
		}
	}
	s := e.Snapshot()
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	now := time.Now()
	e.advance(s, gpu, now)
	if s.GPUs[gpu].Settings.Accounting {
		e.gauges.account(gpu, processes, now)
	}
	if e.gauges.processes == nil {
		e.gauges.processes = map[int][]Process{}
	}
	e.gauges.processes[gpu] = slices.Clone(processes)
	return nil
}

// Reading reads the sensors of a GPU.
func (e *Engine) Reading(gpu int) (Reading, nvml.Return) {
	m, ret := e.model(gpu)
	if ret != nvml.SUCCESS {
		return Reading{}, ret
	}
	s := e.Snapshot()
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	total := e.advance(s, gpu, time.Now())
	busy := e.busy(s, gpu, NoInstance)
	r := Reading{
		Busy: busy, MemoryBusy: busy * memoryShare,
		DefaultLimitMilliwatts: uint32(m.PowerLimitWatts) * 1000,
		EnergyMillijoules:      uint64(total.millijoule),
		TemperatureC:           idleTemperature + uint32(busyTemperature*busy/100),
		SMClockMHz:             uint32(min(m.MaxSMClockMHz, idleSMClockMHz)),
		MemoryClockMHz:         uint32(m.MaxMemoryClockMHz),
	}
	r.MemoryTemperatureC = r.TemperatureC + memoryHotter
	if busy > 0 {
		r.SMClockMHz = uint32(m.MaxSMClockMHz)
	}
	r.LimitMilliwatts = r.DefaultLimitMilliwatts
	if limit := s.GPUs[gpu].Settings.PowerLimitMilliwatts; limit > 0 {
		r.LimitMilliwatts = limit
	}
	r.PowerMilliwatts = min(r.LimitMilliwatts, milliwatts(m.PowerLimitWatts, busy))
	return r, nvml.SUCCESS
}

func milliwatts(limitWatts int, busy float64) uint32 {
	return uint32(math.Round(float64(limitWatts) * 1000 * (idlePower + busyPower*busy/100)))
}

// advance brings a meter up to now; the lock is held.
func (e *Engine) advance(s Snapshot, gpu int, now time.Time) *meter {
	g := &e.gauges
	if g.meters == nil {
		g.meters = map[int]*meter{}
	}
	m := g.meters[gpu]
	if m == nil {
		m = &meter{until: now, busy: map[uint32]float64{}}
		g.meters[gpu] = m
	}
	passed := max(0, now.Sub(m.until).Seconds())
	m.until = now
	busy := e.busy(s, gpu, NoInstance)
	m.millijoule += passed * float64(milliwatts(e.server.GPUs[gpu].Model.PowerLimitWatts, busy))
	m.busy[NoInstance] += passed * busy / 100
	for _, in := range s.GPUs[gpu].Instances {
		m.busy[uint32(in.ID)] += passed * e.busy(s, gpu, uint32(in.ID)) / 100
	}
	return m
}

// busy is how busy a GPU instance or, with NoInstance, the whole GPU is, in
// percent. The lock is held.
func (e *Engine) busy(s Snapshot, gpu int, gi uint32) float64 {
	g := s.GPUs[gpu]
	if gi == NoInstance && g.MIGEnabled {
		sum := 0.0
		for _, in := range g.Instances {
			sum += e.busy(s, gpu, uint32(in.ID)) * float64(e.giSlices(gpu, in))
		}
		return sum / float64(e.server.GPUs[gpu].Model.MIG.ComputeSlices)
	}
	sum := 0
	for _, p := range e.gauges.processes[gpu] {
		if p.GI == gi {
			sum += p.Utilization
		}
	}
	return min(100, float64(sum))
}

// UsedMiB is the memory in use on a GPU instance or, with NoInstance, on the
// whole GPU: what processes have allocated, and what instances take for
// themselves. The MIG User Guide prints 11 MiB for an empty instance of four
// memory slices; others are taken in proportion.
func (e *Engine) UsedMiB(gpu int, gi uint32) int64 {
	s := e.Snapshot()
	if gpu < 0 || gpu >= len(s.GPUs) {
		return 0
	}
	used := int64(0)
	for _, in := range s.GPUs[gpu].Instances {
		if gi == NoInstance || gi == uint32(in.ID) {
			used += (overheadMiBPerFourSlices*int64(in.Placement.Size) + 2) / 4
		}
	}
	for _, p := range e.Processes(gpu) {
		if gi == NoInstance || gi == p.GI {
			used += p.MemoryMiB
		}
	}
	return used
}
