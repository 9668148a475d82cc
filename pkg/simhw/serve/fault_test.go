package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

const allNodes = "dev nvidiactl 195 255\ndev nvidia0 195 0\ndev nvidia1 195 1\ncap nvidia-cap1 384 1\n"

// connect is a client of the server with all device nodes; code is what it is
// greeted with.
func connect(t *testing.T, s *Server) (conn net.Conn, code nvml.Return) {
	t.Helper()
	ours, theirs := net.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		defer close(done)
		defer ours.Close()
		if err := s.client(ctx, ours); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("client: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); theirs.Close(); <-done })
	write(t, theirs, greetingMagic, string(binary.NativeEndian.AppendUint32(nil, uint32(len(allNodes)))), allNodes)
	if err := binary.Read(theirs, binary.NativeEndian, &code); err != nil {
		t.Fatal(err)
	}
	return theirs, code
}

// ask makes a call; what comes back is its code and its first output.
func ask(t *testing.T, conn net.Conn, function string, arguments ...argument) (nvml.Return, []byte) {
	t.Helper()
	write(t, conn, string(encode(function, arguments...)))
	answer, err := readMessage(conn)
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	if answer[4] > 0 {
		first = answer[10 : 10+binary.NativeEndian.Uint32(answer[6:])]
	}
	return nvml.Return(binary.NativeEndian.Uint32(answer)), first
}

func expect(t *testing.T, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, simhw.CodeName(got), simhw.CodeName(want))
	}
}

// A fault of one GPU strikes calls that find it and calls about it, and no other.
func TestFaultsOfAGPU(t *testing.T) {
	e := engine(t)
	if _, err := e.AddFault(simhw.Fault{Call: simhw.CallAny, GPU: new(1), Return: nvml.ERROR_IN_USE}); err != nil {
		t.Fatal(err)
	}
	conn, code := connect(t, New(e, majors))
	expect(t, "greeting", code, nvml.SUCCESS)
	gpu0, gpu1 := handle(gpuToken(e.Snapshot().GPUs[0])), handle(gpuToken(e.Snapshot().GPUs[1]))
	for what, tc := range map[string]struct {
		function  string
		arguments []argument
		want      nvml.Return
	}{
		"find the first":     {"nvmlDeviceGetHandleByIndex_v2", []argument{u32(0), pointer(8)}, nvml.SUCCESS},
		"find the second":    {"nvmlDeviceGetHandleByIndex_v2", []argument{u32(1), pointer(8)}, nvml.ERROR_IN_USE},
		"find what is not":   {"nvmlDeviceGetHandleByIndex_v2", []argument{u32(2), pointer(8)}, nvml.ERROR_INVALID_ARGUMENT},
		"name of the first":  {"nvmlDeviceGetName", []argument{gpu0, pointer(64), u32(64)}, nvml.SUCCESS},
		"name of the second": {"nvmlDeviceGetName", []argument{gpu1, pointer(64), u32(64)}, nvml.ERROR_IN_USE},
		"not served":         {"nvmlDeviceGetFanSpeed", []argument{gpu1, pointer(4)}, nvml.ERROR_IN_USE},
		"count":              {"nvmlDeviceGetCount_v2", []argument{pointer(4)}, nvml.SUCCESS},
	} {
		got, _ := ask(t, conn, tc.function, tc.arguments...)
		expect(t, what, got, tc.want)
	}
}

func TestGreeting(t *testing.T) {
	tests := map[string]struct {
		driver simhw.DriverState
		fault  nvml.Return
		want   nvml.Return
	}{
		"loaded":             {simhw.DriverState{}, nvml.SUCCESS, nvml.SUCCESS},
		"unloaded":           {simhw.DriverState{Unloaded: true}, nvml.SUCCESS, nvml.ERROR_DRIVER_NOT_LOADED},
		"mismatch (UPGR-05)": {simhw.DriverState{Mismatch: true}, nvml.SUCCESS, nvml.ERROR_LIB_RM_VERSION_MISMATCH},
		"a fault of Init":    {simhw.DriverState{}, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := engine(t)
			if err := e.SetDriver(func(d *simhw.DriverState) { *d = tc.driver }); err != nil {
				t.Fatal(err)
			}
			if tc.fault != nvml.SUCCESS {
				if _, err := e.AddFault(simhw.Fault{Call: simhw.CallInit, Return: tc.fault}); err != nil {
					t.Fatal(err)
				}
			}
			_, code := connect(t, New(e, majors))
			expect(t, "greeting", code, tc.want)
		})
	}
}

// Whoever waits has to come again at once, whoever is served gets his answer first.
func TestRefresh(t *testing.T) {
	e := engine(t)
	s := New(e, majors)
	f, err := e.AddFault(simhw.Fault{Call: "nvmlSystemGetCudaDriverVersion", Block: true})
	if err != nil {
		t.Fatal(err)
	}
	busy, _ := connect(t, s)
	idle, _ := connect(t, s)
	answered := make(chan nvml.Return)
	go func() {
		ret, _ := ask(t, busy, "nvmlSystemGetCudaDriverVersion_v2", pointer(4))
		answered <- ret
	}()
	for e.Faults()[0].Waiting == 0 {
		runtime.Gosched()
	}
	s.Refresh()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a client that waits reads %v, want its connection's end", err)
	}
	if err := e.ReleaseFault(f.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, "a call under way", <-answered, nvml.SUCCESS)
	if _, err := busy.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after its answer it reads %v, want its connection's end", err)
	}
	fresh, code := connect(t, s)
	expect(t, "the next greeting", code, nvml.SUCCESS)
	ret, _ := ask(t, fresh, "nvmlDeviceGetCount_v2", pointer(4))
	expect(t, "and a call", ret, nvml.SUCCESS)
}

// MIGD-05, as a client sees it that has been there all the time.
func TestStaleEnumerationMIGD05(t *testing.T) {
	e := engine(t)
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	in, _ := e.CreateGPUInstance(0, 19, nil)
	ci, ret := e.CreateComputeInstance(simhw.Handle{Serial: in.Serial}, 0, nil)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	if _, err := e.AddFault(simhw.Fault{Call: "nvmlDeviceGetMigDeviceHandleByIndex", Stale: true}); err != nil {
		t.Fatal(err)
	}
	s := New(e, majors)
	early, _ := connect(t, s)
	if ret := e.DestroyComputeInstance(simhw.Handle{Serial: ci.Serial}); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	late, _ := connect(t, s)
	first := []argument{handle(gpuToken(e.Snapshot().GPUs[0])), u32(0), pointer(8)}
	ret, _ = ask(t, late, "nvmlDeviceGetMigDeviceHandleByIndex", first...)
	expect(t, "a client from after", ret, nvml.ERROR_NOT_FOUND)
	ret, raw := ask(t, early, "nvmlDeviceGetMigDeviceHandleByIndex", first...)
	expect(t, "a client from before", ret, nvml.SUCCESS)
	stale := handle(token(binary.NativeEndian.Uint64(raw)))
	ret, uuid := ask(t, early, "nvmlDeviceGetUUID", stale, pointer(96), u32(96))
	if expect(t, "its UUID", ret, nvml.SUCCESS); string(uuid) != ci.UUID+"\x00" {
		t.Errorf("UUID %q, want %q", uuid, ci.UUID)
	}
	ret, _ = ask(t, early, "nvmlGpuInstanceGetComputeInstanceById", handle(newToken(kindGI, 0, in.Serial)), u32(0), pointer(8))
	expect(t, "the list by id does not have it", ret, nvml.ERROR_NOT_FOUND)
}

// Clients make room for as many instances as the profile says.
func TestListNeverMoreThanReported(t *testing.T) {
	e := engine(t)
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	for range 4 {
		if _, ret := e.CreateGPUInstance(0, 19, nil); ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
	}
	if err := e.OverrideProfile(0, "1g.10gb", simhw.ProfileOverride{InstanceCount: 2}); err != nil {
		t.Fatal(err)
	}
	conn, _ := connect(t, New(e, majors))
	gpu0 := handle(gpuToken(e.Snapshot().GPUs[0]))
	ret, handles := ask(t, conn, "nvmlDeviceGetGpuInstances", gpu0, u32(19), pointer(0xffffffff), pointer(4))
	if expect(t, "list", ret, nvml.SUCCESS); len(handles) != 2*8 {
		t.Errorf("%d bytes of handles, want two handles", len(handles))
	}
}
