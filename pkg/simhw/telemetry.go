package simhw

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// gauges is what changes by itself on a GPU: the sums of the work that processes
// do. It is in memory only; a restart of the daemon counts anew, as a reload of
// the driver does.
type gauges struct {
	mu       sync.Mutex
	meters   map[int]*meter
	accounts map[int][]Account
	samples  gpmSamples
}

// meter sums up the work of a GPU. Readings depend on nothing but the processes,
// so that they are steady.
type meter struct {
	until      time.Time
	millijoule float64
	// busy are seconds of full use, of GPU instances by their id and of the GPU
	// under NoInstance.
	busy map[int]float64
}

// Reading is what the sensors of a GPU show.
type Reading struct {
	// Busy and MemoryBusy are in percent, of the time and of the memory's bandwidth.
	Busy, MemoryBusy float64
	// PowerMilliwatts and the limits are 0 where the catalogue knows no limit.
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
	idlePower, busyPower             = 0.1, 0.8
	idleTemperature, busyTemperature = 30, 35
	memoryHotter                     = 8
	memoryShare                      = 0.5
	idleSMClockMHz                   = 345
)

// overheadMiB is what a GPU instance takes for itself of four memory slices: the
// MIG User Guide prints 11 MiB for an empty one. Others are taken in proportion.
const overheadMiB = 11

// Reading reads the sensors of a GPU.
func (e *Engine) Reading(gpu int) (Reading, nvml.Return) {
	m, ret := e.model(gpu)
	if ret != nvml.SUCCESS {
		return Reading{}, ret
	}
	s := e.Snapshot()
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	busy := e.busyPercent(&s, gpu, NoInstance)
	r := Reading{
		Busy: busy, MemoryBusy: busy * memoryShare,
		DefaultLimitMilliwatts: uint32(m.PowerLimitWatts) * 1000,
		EnergyMillijoules:      uint64(e.advance(&s, gpu, time.Now()).millijoule),
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

// meter accounts for the time until a change with the state before it.
func (e *Engine) meter(before, after *Snapshot) {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	now := time.Now()
	for i := range before.GPUs {
		e.advance(before, i, now)
		if after.GPUs[i].Settings.Accounting {
			e.gauges.account(i, after.GPUs[i].Processes, now)
		} else {
			delete(e.gauges.accounts, i)
		}
	}
}

// advance brings a meter up to now; the gauges' lock is held.
func (e *Engine) advance(s *Snapshot, gpu int, now time.Time) *meter {
	g := &e.gauges
	if g.meters == nil {
		g.meters = map[int]*meter{}
	}
	m := g.meters[gpu]
	if m == nil {
		m = &meter{until: now, busy: map[int]float64{}}
		g.meters[gpu] = m
	}
	passed := max(0, now.Sub(m.until).Seconds())
	m.until = now
	busy := e.busyPercent(s, gpu, NoInstance)
	m.millijoule += passed * float64(milliwatts(e.server.GPUs[gpu].Model.PowerLimitWatts, busy))
	m.busy[NoInstance] += passed * busy / 100
	for _, in := range s.GPUs[gpu].Instances {
		m.busy[in.ID] += passed * e.busyPercent(s, gpu, in.ID) / 100
	}
	return m
}

// busyPercent is how busy a GPU instance or, with NoInstance, the whole GPU is: a
// process keeps what it runs on busy all the time. With MIG on the GPU is as busy
// as its compute slices are on average.
func (e *Engine) busyPercent(s *Snapshot, gpu, gi int) float64 {
	g := s.GPUs[gpu]
	if gi == NoInstance && g.MIGEnabled {
		sum := 0.0
		for _, in := range g.Instances {
			sum += e.busyPercent(s, gpu, in.ID) * float64(e.giSlices(gpu, in))
		}
		return sum / float64(e.server.GPUs[gpu].Model.MIG.ComputeSlices)
	}
	if slices.ContainsFunc(g.Processes, func(p Process) bool { return p.GPUInstance == gi }) {
		return 100
	}
	return 0
}

// UsedMiB is the memory in use on a GPU instance or, with NoInstance, on the
// whole GPU: what processes have allocated, and what instances take for
// themselves.
func (g GPUState) UsedMiB(gi int) int64 {
	used := int64(0)
	for _, in := range g.Instances {
		if gi == NoInstance || gi == in.ID {
			used += (overheadMiB*int64(in.Placement.Size) + 2) / 4
		}
	}
	for _, p := range g.Processes {
		if gi == NoInstance || gi == p.GPUInstance {
			used += p.MemoryMiB
		}
	}
	return used
}
