package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

var majors = Majors{GPU: 195, Capability: 384, UVM: 385}

func engine(t *testing.T) *simhw.Engine {
	t.Helper()
	s, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	e, err := simhw.NewEngine(s, simhw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestView(t *testing.T) {
	s := engine(t).Snapshot()
	tests := map[string]struct {
		greeting string
		admitted nvml.Return
		gpus     []int
		changes  bool
	}{
		"nothing":            {"", nvml.ERROR_DRIVER_NOT_LOADED, nil, false},
		"all":                {"dev nvidiactl 195 255\ndev nvidia0 195 0\ndev nvidia1 195 1\ncap nvidia-cap1 384 1\n", nvml.SUCCESS, []int{0, 1}, true},
		"one GPU":            {"dev nvidiactl 195 255\ndev nvidia1 195 1\n", nvml.SUCCESS, []int{1}, false},
		"another's major":    {"dev nvidiactl 195 255\ndev nvidia0 196 0\ncap nvidia-cap1 385 1\n", nvml.SUCCESS, nil, false},
		"another's minor":    {"dev nvidiactl 195 0\ndev nvidia0 195 1\n", nvml.ERROR_DRIVER_NOT_LOADED, nil, false},
		"a node of UVM's":    {"dev nvidiactl 195 255\ndev nvidia-uvm 385 0\n", nvml.SUCCESS, nil, false},
		"capability outside": {"dev nvidiactl 195 255\ndev nvidia-cap1 384 1\n", nvml.SUCCESS, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := newView(tc.greeting, majors)
			if err != nil {
				t.Fatal(err)
			}
			var gpus []int
			for _, g := range v.gpus(s) {
				gpus = append(gpus, g.Index)
			}
			if diff := cmp.Diff(tc.gpus, gpus); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
			if v.admitted() != tc.admitted || v.mayChange() != tc.changes {
				t.Errorf("admitted %d, may change %t", v.admitted(), v.mayChange())
			}
		})
	}
	if _, err := newView("nonsense\n", majors); err == nil {
		t.Error("a malformed greeting was taken")
	}
}

// encode is a request as the shim sends it.
func encode(function string, arguments ...argument) []byte {
	b := append([]byte{uint8(len(function))}, function...)
	b = append(b, uint8(len(arguments)))
	for _, a := range arguments {
		b = append(b, a.kind)
		b = binary.NativeEndian.AppendUint32(b, uint32(len(a.bytes)))
		b = binary.NativeEndian.AppendUint32(b, a.capacity)
		b = append(b, a.bytes...)
	}
	return append(binary.NativeEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func u32(v uint32) argument {
	return argument{kind: kindValue, bytes: binary.NativeEndian.AppendUint32(nil, v)}
}

func handle(t token) argument {
	return argument{kind: kindValue, bytes: binary.NativeEndian.AppendUint64(nil, uint64(t))}
}

func pointer(capacity uint32) argument { return argument{kind: kindPointer, capacity: capacity} }

func TestCalls(t *testing.T) {
	gpu0, null := handle(gpuToken(simhw.GPUState{})), argument{kind: kindNull}
	tests := map[string]struct {
		function  string
		arguments []argument
		want      nvml.Return
		outputs   int
	}{
		"a string that fits":        {"nvmlDeviceGetName", []argument{gpu0, pointer(64), u32(64)}, nvml.SUCCESS, 1},
		"a string that does not":    {"nvmlDeviceGetName", []argument{gpu0, pointer(8), u32(8)}, nvml.ERROR_INSUFFICIENT_SIZE, 0},
		"no room for the zero":      {"nvmlSystemGetDriverVersion", []argument{pointer(9), u32(9)}, nvml.ERROR_INSUFFICIENT_SIZE, 0},
		"just enough":               {"nvmlSystemGetDriverVersion", []argument{pointer(10), u32(10)}, nvml.SUCCESS, 1},
		"a NULL output":             {"nvmlDeviceGetName", []argument{gpu0, null, u32(64)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"a NULL string":             {"nvmlDeviceGetHandleByUUID", []argument{null, pointer(8)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"a handle of nobody":        {"nvmlDeviceGetName", []argument{handle(42), pointer(64), u32(64)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"a GPU that is not there":   {"nvmlDeviceGetName", []argument{handle(gpuToken(simhw.GPUState{Index: 9})), pointer(64), u32(64)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"a GPU as an instance":      {"nvmlGpuInstanceDestroy", []argument{gpu0}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"placements only counted":   {"nvmlDeviceGetGpuInstancePossiblePlacements_v2", []argument{gpu0, u32(19), null, pointer(4)}, nvml.SUCCESS, 1},
		"placements":                {"nvmlDeviceGetGpuInstancePossiblePlacements_v2", []argument{gpu0, u32(19), pointer(0xffffffff), pointer(4)}, nvml.SUCCESS, 2},
		"create without a result":   {"nvmlDeviceCreateGpuInstance", []argument{gpu0, u32(19), null}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"create without placement":  {"nvmlDeviceCreateGpuInstanceWithPlacement", []argument{gpu0, u32(19), null, pointer(8)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"unknown MIG mode":          {"nvmlDeviceSetMigMode", []argument{gpu0, u32(2), pointer(4)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"failed mode with a reason": {"nvmlDeviceSetMigMode", []argument{handle(gpuToken(simhw.GPUState{Index: 1})), u32(1), pointer(4)}, nvml.ERROR_NOT_SUPPORTED, 1},
		"struct of another version": {"nvmlDeviceGetMemoryInfo_v2", []argument{gpu0, {kind: kindPointer, bytes: []byte{40, 0, 0, 1}, capacity: 40}}, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, 0},
		"a GPU that was replaced":   {"nvmlDeviceGetName", []argument{handle(gpuToken(simhw.GPUState{Generation: 1})), pointer(64), u32(64)}, nvml.ERROR_GPU_IS_LOST, 0},
		"too few arguments":         {"nvmlDeviceGetName", []argument{gpu0}, nvml.ERROR_UNKNOWN, 0},
		"short scalar":              {"nvmlDeviceGetIndex", []argument{{kind: kindValue, bytes: []byte{1}}, pointer(4)}, nvml.ERROR_INVALID_ARGUMENT, 0},
		"not served":                {"nvmlDeviceGetFanSpeed", []argument{gpu0, pointer(4)}, nvml.ERROR_NOT_SUPPORTED, 0},
	}
	server := New(engine(t), majors)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				defer ours.Close()
				if err := server.client(t.Context(), ours); err != nil {
					t.Errorf("client: %v", err)
				}
			}()
			greeting := "dev nvidiactl 195 255\ndev nvidia0 195 0\ndev nvidia1 195 1\ncap nvidia-cap1 384 1\n"
			write(t, theirs, greetingMagic, string(binary.NativeEndian.AppendUint32(nil, uint32(len(greeting)))), greeting)
			var code int32
			if err := binary.Read(theirs, binary.NativeEndian, &code); err != nil || code != 0 {
				t.Fatalf("greeting: %d, %v", code, err)
			}
			write(t, theirs, string(encode(tc.function, tc.arguments...)))
			answer, err := readMessage(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if got := nvml.Return(binary.NativeEndian.Uint32(answer)); got != tc.want || int(answer[4]) != tc.outputs {
				t.Errorf("code %d with %d outputs, want %d with %d", got, answer[4], tc.want, tc.outputs)
			}
		})
	}
}

func write(t *testing.T, conn net.Conn, parts ...string) {
	t.Helper()
	if _, err := conn.Write([]byte(strings.Join(parts, ""))); err != nil {
		t.Fatal(err)
	}
}

// A client may send anything; the server must survive it.
func FuzzReadRequest(f *testing.F) {
	f.Add(encode("nvmlDeviceGetName", handle(gpuToken(simhw.GPUState{})), pointer(64), u32(64)))
	f.Add([]byte{3, 0, 0, 0, 200, 1, 1})
	f.Fuzz(func(t *testing.T, message []byte) {
		req, err := readRequest(bytes.NewReader(message))
		if err == nil && !bytes.Equal(encode(req.function, req.arguments...), message[:4+binary.NativeEndian.Uint32(message)]) {
			t.Errorf("%x was read as %+v", message, req)
		}
	})
}

func TestCatalogIsKnownToNVML(t *testing.T) {
	for _, name := range catalog.Models() {
		m, _, err := catalog.LoadModel(name)
		if errors.Is(err, catalog.ErrNotKnown) {
			continue // it is never simulated
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := brands[m.Brand]; !ok {
			t.Errorf("%s: NVML has no brand %q", name, m.Brand)
		}
		if _, ok := architectures[m.Architecture]; !ok {
			t.Errorf("%s: NVML has no architecture %q", name, m.Architecture)
		}
	}
}
