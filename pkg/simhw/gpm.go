package simhw

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxGPMSamples bounds what programs leave behind that die without freeing their
// samples; the one allocated first goes first.
const maxGPMSamples = 4096

// gpmSamples are the sample buffers that clients have allocated, by their number.
type gpmSamples struct {
	last uint64
	by   map[uint64]GPMSample
}

// GPMSample is the state of the performance counters of a GPU or of one of its
// GPU instances (GI) at a time; the zero value is a buffer not yet filled.
type GPMSample struct {
	At  time.Time
	GPU int
	GI  int
	// BusySeconds is how long the GPU or instance has worked, at full use.
	BusySeconds float64
}

// AllocateGPMSample makes an empty buffer and returns its number.
func (e *Engine) AllocateGPMSample() uint64 {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	s := &e.gauges.samples
	if s.by == nil {
		s.by = map[uint64]GPMSample{}
		s.last = firstNumber()
	}
	s.last++
	s.by[s.last] = GPMSample{}
	if len(s.by) > maxGPMSamples {
		delete(s.by, s.oldest())
	}
	return s.last
}

func (s *gpmSamples) oldest() uint64 {
	first := s.last
	for n := range s.by {
		first = min(first, n)
	}
	return first
}

// FreeGPMSample gives a buffer back. INVALID_ARGUMENT if there is none.
func (e *Engine) FreeGPMSample(sample uint64) nvml.Return {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	if _, ok := e.gauges.samples.by[sample]; !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	delete(e.gauges.samples.by, sample)
	return nvml.SUCCESS
}

// FillGPMSample reads the counters of a GPU or, if gi is not NoInstance, of a GPU
// instance into a buffer.
func (e *Engine) FillGPMSample(sample uint64, gpu, gi int) nvml.Return {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return ret
	}
	s := e.Snapshot()
	if gi != NoInstance {
		if _, ok := s.GPUs[gpu].Instance(gi); !ok {
			return nvml.ERROR_NOT_FOUND
		}
	}
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	if _, ok := e.gauges.samples.by[sample]; !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	now := time.Now()
	m := e.advance(&s, gpu, now)
	e.gauges.samples.by[sample] = GPMSample{At: now, GPU: gpu, GI: gi, BusySeconds: m.busy[gi]}
	return nvml.SUCCESS
}

// GPMBusy is how busy, in percent, what two samples are about was between them.
// INVALID_ARGUMENT unless both are filled, from one device, in this order.
func (e *Engine) GPMBusy(first, second uint64) (float64, nvml.Return) {
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	a, b := e.gauges.samples.by[first], e.gauges.samples.by[second]
	passed := b.At.Sub(a.At).Seconds()
	if a.At.IsZero() || b.At.IsZero() || a.GPU != b.GPU || a.GI != b.GI || passed <= 0 {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return min(100, max(0, 100*(b.BusySeconds-a.BusySeconds)/passed)), nvml.SUCCESS
}
