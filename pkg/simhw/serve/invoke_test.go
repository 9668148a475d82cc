package serve

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// everyNode is what a client on the node itself sees.
const everyNode = "dev nvidiactl 195 255\ncap nvidia-cap1 384 1\n" +
	"dev nvidia0 195 0\ndev nvidia1 195 1\ndev nvidia2 195 2\ndev nvidia3 195 3\n" +
	"dev nvidia4 195 4\ndev nvidia5 195 5\ndev nvidia6 195 6\ndev nvidia7 195 7\n"

func engineOf(t *testing.T, server string) *simhw.Engine {
	t.Helper()
	s, _, err := catalog.LoadServer(server)
	if err != nil {
		t.Fatal(err)
	}
	e, err := simhw.NewEngine(s, simhw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// invoke is a call of a client with these device nodes; what it writes comes back
// by the position of its parameter.
func invoke(t *testing.T, e *simhw.Engine, nodes, function string, arguments ...argument) (nvml.Return, map[int][]byte) {
	t.Helper()
	v, err := newView(nodes, majors)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{ctx: t.Context(), engine: e, view: v, arguments: arguments}
	ret := c.run(function)
	if ret != nvml.SUCCESS {
		c.outputs = c.failing
	}
	out := map[int][]byte{}
	for _, o := range c.outputs {
		out[o.index] = o.bytes
	}
	return ret, out
}

// written is a value of four or eight bytes that a call has written.
func written(b []byte) uint64 {
	switch len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

// gpuArgument is the handle of a GPU.
func gpuArgument(gpu int) argument { return handle(newToken(kindGPU, gpu, 1)) }

func u64(v uint64) argument {
	return argument{kind: kindValue, bytes: binary.NativeEndian.AppendUint64(nil, v)}
}

// filled is a pointer to bytes that are read and written.
func filled(bytes []byte) argument {
	return argument{kind: kindPointer, bytes: bytes, capacity: uint32(len(bytes))}
}

// count is a pointer to a count.
func count(n uint32) argument { return filled(binary.NativeEndian.AppendUint32(nil, n)) }

// askNumber calls a function whose last parameter is a pointer to a number.
func askNumber(t *testing.T, e *simhw.Engine, function string, arguments ...argument) (nvml.Return, uint64) {
	t.Helper()
	ret, out := invoke(t, e, everyNode, function, append(arguments, pointer(8))...)
	return ret, written(out[len(arguments)])
}
