package simhw

import "time"

// Latency is how long changes take. Reads take no time of their own.
type Latency struct {
	CreateGPUInstance      time.Duration
	DestroyGPUInstance     time.Duration
	CreateComputeInstance  time.Duration
	DestroyComputeInstance time.Duration
	MIGMode                time.Duration
	// Release is how long a GPU instance is still in use after a compute instance
	// of it was destroyed.
	Release time.Duration
}

// DefaultLatency is that of a real GPU as far as it is known: making and removing
// a one-slice instance with its compute instance takes 0.16 s and 0.10 s on an
// A30 (README of the FAR scheduler, arXiv 2507.13601); how that divides between
// the two instances, and that a Hopper takes as long, is assumed. Nobody seems to
// have published how long a change of MIG mode takes; one second is a guess.
// Release is none: the README speaks of tenths of a second, but not of each time.
func DefaultLatency() Latency {
	return Latency{
		CreateGPUInstance:      120 * time.Millisecond,
		CreateComputeInstance:  40 * time.Millisecond,
		DestroyGPUInstance:     70 * time.Millisecond,
		DestroyComputeInstance: 30 * time.Millisecond,
		MIGMode:                time.Second,
	}
}

// Scale multiplies all times; 0 makes every change immediate.
func (l Latency) Scale(factor float64) Latency {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Latency{
		CreateGPUInstance:      scale(l.CreateGPUInstance),
		DestroyGPUInstance:     scale(l.DestroyGPUInstance),
		CreateComputeInstance:  scale(l.CreateComputeInstance),
		DestroyComputeInstance: scale(l.DestroyComputeInstance),
		MIGMode:                scale(l.MIGMode),
		Release:                scale(l.Release),
	}
}
