package serve

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// call is one NVML call: what came in, and what is to be written. The methods
// that read and write take the parameter's position in the C prototype.
type call struct {
	// ctx ends when the daemon is told to; conn is the client's.
	ctx    context.Context
	conn   net.Conn
	engine *simhw.Engine
	view   view
	// since numbers the hardware's state when the client came.
	since     uint64
	arguments []argument
	outputs   []output
	// failing are outputs that are also written when the call fails.
	failing []output
	// pends makes a change of MIG mode wait for a reset.
	pends bool
}

// notServed is what all functions that are not served are counted as.
const notServed = "(not served)"

// run finds the function. What is not served is not supported, as on a GPU that
// lacks a feature, unless a fault says otherwise.
func (c *call) run(name string) nvml.Return {
	f, ok := functions[name]
	if !ok {
		name = notServed // clients may ask for anything
		f = read(len(c.arguments), func(*call) nvml.Return { return nvml.ERROR_NOT_SUPPORTED })
	}
	if len(c.arguments) != f.parameters {
		return nvml.ERROR_UNKNOWN
	}
	if f.changes && !c.view.mayChange() {
		return nvml.ERROR_NO_PERMISSION
	}
	if f.finds {
		return c.find(name, f)
	}
	gpu, instance := c.target()
	v := c.engine.Enter(c.ctx, simhw.Call{Function: name, GPU: gpu, Instance: instance, Changes: f.changes})
	if ret, ends := v.Ends(); ends {
		if v.NoEffect && v.Late > 0 {
			late := *c
			time.AfterFunc(v.Late, func() { _ = f.do(&late) })
		}
		return ret
	}
	c.pends = v.Pends
	return f.do(c)
}

// find looks first, since only what it finds tells which GPU the call is about.
func (c *call) find(name string, f function) nvml.Return {
	ret := f.do(c)
	gpu := -1
	if ret == nvml.SUCCESS {
		gpu = token(binary.NativeEndian.Uint64(c.outputs[len(c.outputs)-1].bytes)).handle().GPU
	}
	v := c.engine.Enter(c.ctx, simhw.Call{Function: name, GPU: gpu, Instance: -1})
	if end, ends := v.Ends(); ends {
		return end
	}
	return ret
}

// target is the GPU's slot and the id of the GPU instance that the handle in the
// first argument is about; negative if there is none.
func (c *call) target() (gpu, instance int) {
	if len(c.arguments) == 0 || c.arguments[0].kind != kindValue || len(c.arguments[0].bytes) < 8 {
		return -1, -1
	}
	t := c.token(0)
	h := t.handle()
	s := c.engine.Snapshot()
	if t.kind() < kindGPU || t.kind() > kindMIG || h.GPU >= len(s.GPUs) {
		return -1, -1
	}
	for _, in := range s.GPUs[h.GPU].Instances {
		if t.kind() == kindGI && in.Serial == h.Serial {
			return h.GPU, in.ID
		}
		for _, ci := range in.Compute {
			if (t.kind() == kindCI || t.kind() == kindMIG) && ci.Serial == h.Serial {
				return h.GPU, in.ID
			}
		}
	}
	return h.GPU, -1
}

// u32 reads an unsigned int or an enum.
func (c *call) u32(i int) uint32 {
	if len(c.arguments[i].bytes) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(c.arguments[i].bytes)
}

func (c *call) token(i int) token {
	if len(c.arguments[i].bytes) < 8 {
		return 0
	}
	return token(binary.NativeEndian.Uint64(c.arguments[i].bytes))
}

// text reads a C string; false for NULL.
func (c *call) text(i int) (string, bool) {
	return string(c.arguments[i].bytes), c.arguments[i].kind == kindPointer
}

func (c *call) null(i int) bool { return c.arguments[i].kind == kindNull }

// write puts bytes behind a pointer; it says what is wrong with the pointer.
func (c *call) write(i int, bytes []byte) nvml.Return {
	if c.null(i) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	if uint64(len(bytes)) > uint64(c.arguments[i].capacity) {
		return nvml.ERROR_INSUFFICIENT_SIZE
	}
	c.outputs = append(c.outputs, output{index: i, bytes: bytes})
	return nvml.SUCCESS
}

func (c *call) writeU32(i int, v uint32) nvml.Return {
	return c.write(i, binary.NativeEndian.AppendUint32(nil, v))
}

func (c *call) writeToken(i int, t token) nvml.Return {
	return c.write(i, binary.NativeEndian.AppendUint64(nil, uint64(t)))
}

func (c *call) writeText(i int, s string) nvml.Return {
	return c.write(i, append([]byte(s), 0))
}

// writeTokens fills an array of handles and its count; NULL is only for asking
// how many there are.
func (c *call) writeTokens(array, count int, tokens []token) nvml.Return {
	var b []byte
	for _, t := range tokens {
		b = binary.NativeEndian.AppendUint64(b, uint64(t))
	}
	if ret := c.write(array, b); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(count, uint32(len(tokens)))
}

// writeStruct writes a struct of go-nvml, whose layout is C's.
func writeStruct[T any](c *call, i int, v *T) nvml.Return {
	return c.write(i, bytesOf(v))
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// version is NVML_STRUCT_VERSION of a struct.
func version[T any](number uint32) uint32 {
	var v T
	return uint32(unsafe.Sizeof(v)) | number<<24
}

// chars writes a string into a char array, always with a zero behind it.
func chars(to []int8, s string) {
	for i := range min(len(s), len(to)-1) {
		to[i] = int8(s[i])
	}
}

// device is what a device handle names: a GPU, or a MIG device on it.
type device struct {
	gpu   int
	state simhw.GPUState
	mig   *simhw.MIGDevice
}

// device resolves a handle. INVALID_ARGUMENT for one that is not the client's, or
// whose MIG device is gone.
func (c *call) device(i int) (device, nvml.Return) {
	t := c.token(i)
	h := t.handle()
	s := c.engine.Snapshot()
	if t.kind() != kindGPU && t.kind() != kindMIG || h.GPU >= len(s.GPUs) || !c.view.seesGPU(s.GPUs[h.GPU]) {
		return device{}, nvml.ERROR_INVALID_ARGUMENT
	}
	d := device{gpu: h.GPU, state: s.GPUs[h.GPU]}
	if t.kind() == kindGPU && t != gpuToken(d.state) {
		return device{}, nvml.ERROR_GPU_IS_LOST // another GPU is in its slot
	}
	if t.kind() == kindMIG {
		m, ret := c.engine.ComputeInstance(h)
		if ret != nvml.SUCCESS {
			m, ret = c.engine.StaleMIGDevice(h, c.since)
		}
		if ret != nvml.SUCCESS || !c.view.seesCompute(d.state, m.Instance, m.Compute) {
			return device{}, nvml.ERROR_INVALID_ARGUMENT
		}
		d.mig = &m
	}
	return d, nvml.SUCCESS
}

// gpuOnly is device for calls that do not take MIG devices, of their first argument.
func (c *call) gpuOnly() (device, nvml.Return) {
	d, ret := c.device(0)
	if ret == nvml.SUCCESS && d.mig != nil {
		return device{}, nvml.ERROR_NOT_SUPPORTED
	}
	return d, ret
}

// migOnly is device for calls that take nothing else.
func (c *call) migOnly(i int) (device, nvml.Return) {
	d, ret := c.device(i)
	if ret == nvml.SUCCESS && d.mig == nil {
		return device{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return d, ret
}

// gpuInstance resolves the handle of a GPU instance in the first argument.
func (c *call) gpuInstance() (simhw.Handle, simhw.InstanceState, nvml.Return) {
	t := c.token(0)
	if t.kind() != kindGI {
		return simhw.Handle{}, simhw.InstanceState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	h := t.handle()
	in, ret := c.engine.GPUInstance(h)
	if ret != nvml.SUCCESS {
		return simhw.Handle{}, simhw.InstanceState{}, ret
	}
	g := c.engine.Snapshot().GPUs[h.GPU]
	if !c.view.seesGPU(g) || !c.view.seesInstance(g, in) {
		return simhw.Handle{}, simhw.InstanceState{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return h, in, nvml.SUCCESS
}

// computeInstance resolves a handle of a compute instance.
func (c *call) computeInstance(i int) (simhw.Handle, simhw.MIGDevice, nvml.Return) {
	t := c.token(i)
	if t.kind() != kindCI {
		return simhw.Handle{}, simhw.MIGDevice{}, nvml.ERROR_INVALID_ARGUMENT
	}
	h := t.handle()
	d, ret := c.engine.ComputeInstance(h)
	if ret != nvml.SUCCESS {
		return simhw.Handle{}, simhw.MIGDevice{}, ret
	}
	g := c.engine.Snapshot().GPUs[h.GPU]
	if !c.view.seesGPU(g) || !c.view.seesCompute(g, d.Instance, d.Compute) {
		return simhw.Handle{}, simhw.MIGDevice{}, nvml.ERROR_INVALID_ARGUMENT
	}
	return h, d, nvml.SUCCESS
}

// profileName is the name of a profile as NVML's versioned calls give it.
func profileName(gi, ci string) string { return "MIG " + strings.TrimPrefix(ci+"."+gi, ".") }
