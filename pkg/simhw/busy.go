package simhw

import "time"

// deadline is until when something lasts.
type deadline time.Time

// keepBusy leaves a GPU instance in use for a while after a compute instance of
// it went away.
func (e *Engine) keepBusy(serial uint64) {
	if e.options.Latency.Release == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy[serial] = deadline(time.Now().Add(e.options.Latency.Release))
}

func (e *Engine) isBusy(serial uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	until, ok := e.busy[serial]
	if ok && time.Now().Before(time.Time(until)) {
		return true
	}
	delete(e.busy, serial)
	return false
}
