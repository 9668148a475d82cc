package serve

import "github.com/cleave-dra/cleave/pkg/simhw"

// token is an NVML handle. Clients only carry it: from the top, 4 bits of kind,
// 12 bits of GPU and 48 bits of serial. The serial tells an instance from later
// ones with the same id, and stays the same over restarts. No token looks like a
// pointer into memory, so that Go's garbage collector lets it be.
type token uint64

const (
	kindGPU       = 1
	kindGI        = 2
	kindCI        = 3
	kindMIG       = 4
	kindEventSet  = 5
	kindGPMSample = 6
	serialBits    = 48
	serialMask    = 1<<serialBits - 1
	gpuBits       = 12
	gpuMask       = 1<<gpuBits - 1
)

func newToken(kind, gpu int, serial uint64) token {
	return token(uint64(kind)<<(serialBits+gpuBits) | uint64(gpu)<<serialBits | serial&serialMask)
}

func (t token) kind() int { return int(t >> (serialBits + gpuBits)) }

func (t token) handle() simhw.Handle {
	return simhw.Handle{GPU: int(t >> serialBits & gpuMask), Serial: uint64(t) & serialMask}
}

// gpuToken tells the GPU from others that were or will be in its slot.
func gpuToken(g simhw.GPUState) token {
	return newToken(kindGPU, g.Index, uint64(g.Generation)+1)
}
