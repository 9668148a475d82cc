package simhw

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// staleDevice is a MIG device that is gone, and when it went.
type staleDevice struct {
	MIGDevice
	gone uint64
}

// keepStale remembers a MIG device that goes, for the fault that lets the
// enumeration by index still return it.
func (e *Engine) keepStale(d MIGDevice) {
	if !e.faults.stale(d.GPU) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale[d.GPU] = append(e.stale[d.GPU], staleDevice{MIGDevice: d, gone: e.now.number})
}

// StaleMIGDevices are those of a GPU that are gone, and that a client which has
// been there since an earlier state still finds by index. None without a fault.
func (e *Engine) StaleMIGDevices(gpu int, since uint64) []MIGDevice {
	if !e.faults.stale(gpu) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []MIGDevice
	for _, d := range e.stale[gpu] {
		if d.gone >= since {
			out = append(out, d.MIGDevice)
		}
	}
	return out
}

// StaleMIGDevice is one of them by its handle.
func (e *Engine) StaleMIGDevice(h Handle, since uint64) (MIGDevice, nvml.Return) {
	for _, d := range e.StaleMIGDevices(h.GPU, since) {
		if d.Compute.Serial == h.Serial {
			return d, nvml.SUCCESS
		}
	}
	return MIGDevice{}, nvml.ERROR_INVALID_ARGUMENT
}
