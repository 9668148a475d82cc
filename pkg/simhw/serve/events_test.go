package serve

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// A client in a container gets the events of the whole GPU, not those of
// instances (nvml.h).
func TestEvents(t *testing.T) {
	e := engineOf(t, "mixed")
	for nodes, want := range map[string]uint64{everyNode: 31, "dev nvidiactl 195 255\ndev nvidia0 195 0\n": 79} {
		_, out := invoke(t, e, nodes, "nvmlEventSetCreate", pointer(8))
		set := handle(token(written(out[0])))
		if ret, _ := invoke(t, e, nodes, "nvmlDeviceRegisterEvents", gpuArgument(0), u64(nvml.EventTypeXidCriticalError), set); ret != nvml.SUCCESS {
			t.Fatalf("register: %d", ret)
		}
		if err := e.InjectXid(0, 31, 7, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.InjectXid(0, 79, simhw.NoInstance, simhw.NoInstance); err != nil {
			t.Fatal(err)
		}
		_, out = invoke(t, e, nodes, "nvmlEventSetWait_v2", set, pointer(32), u32(0))
		var got eventData
		copy(bytesOf(&got), out[1])
		if got.data != want || got.kind != nvml.EventTypeXidCriticalError || got.device.handle().GPU != 0 {
			t.Errorf("event %+v, want Xid %d", got, want)
		}
		if ret, _ := invoke(t, e, nodes, "nvmlEventSetFree", set); ret != nvml.SUCCESS {
			t.Errorf("free: %d", ret)
		}
		if ret, _ := invoke(t, e, nodes, "nvmlEventSetWait_v2", set, pointer(32), u32(0)); ret != nvml.ERROR_UNKNOWN {
			t.Errorf("wait on a freed set: %d", ret)
		}
	}
}

func TestHungUp(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	socket := conn.(syscall.Conn)
	if hungUp(socket) {
		t.Error("a client that is there counts as gone")
	}
	if _, err := client.Write([]byte("next call")); err != nil {
		t.Fatal(err)
	}
	if hungUp(socket) {
		t.Error("a client that has written counts as gone")
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if !hungUp(socket) {
		t.Error("a client that has closed counts as there")
	}
}
