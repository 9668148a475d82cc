package clients_test

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// open initializes the node's library for the length of a test.
func open(t *testing.T, n *simnode.Node) nvml.Interface {
	t.Helper()
	lib := nvml.New(nvml.WithLibraryPath(n.Library))
	check(t, "Init", lib.Init())
	t.Cleanup(func() { check(t, "Shutdown", lib.Shutdown()) })
	return lib
}

func check(t *testing.T, what string, ret nvml.Return) {
	t.Helper()
	if ret != nvml.SUCCESS {
		t.Fatalf("%s: %d (%v)", what, ret, ret)
	}
}

// registered is an event set for the Xids of GPU 0.
func registered(t *testing.T, lib nvml.Interface) (nvml.Device, nvml.EventSet) {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(0)
	check(t, "DeviceGetHandleByIndex", ret)
	set, ret := lib.EventSetCreate()
	check(t, "EventSetCreate", ret)
	check(t, "RegisterEvents", d.RegisterEvents(nvml.EventTypeXidCriticalError, set))
	return d, set
}

// A call that waits for an event holds up no other one.
func TestWaitForAnEvent(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	d, set := registered(t, lib)
	type answer struct {
		event nvml.EventData
		ret   nvml.Return
	}
	got := make(chan answer)
	go func() {
		ev, ret := set.Wait(60_000)
		got <- answer{ev, ret}
	}()
	_, ret := lib.DeviceGetCount()
	check(t, "DeviceGetCount meanwhile", ret)
	if _, err := n.Ctl("event", "--gpu=0", "--xid=79"); err != nil {
		t.Fatal(err)
	}
	a := <-got
	check(t, "Wait", a.ret)
	uuid, _ := a.event.Device.GetUUID()
	want, _ := d.GetUUID()
	if a.event.EventData != 79 || a.event.GpuInstanceId != 0xffffffff || uuid != want {
		t.Errorf("event %+v of %s, want Xid 79 of %s", a.event, uuid, want)
	}
	check(t, "Free", set.Free())
}

// The driver's memory goes with the daemon, and event sets with it: the client
// gets UNKNOWN, and makes another.
func TestEventSetsEndWithTheDaemon(t *testing.T) {
	n := simnode.Start(t, "mixed")
	lib := open(t, n)
	_, set := registered(t, lib)
	got := make(chan nvml.Return)
	go func() {
		_, ret := set.Wait(600_000)
		got <- ret
	}()
	n.Kill()
	if ret := <-got; ret != nvml.ERROR_UNKNOWN {
		t.Errorf("waiting while the daemon died: %d", ret)
	}
	n.Await()
	if _, ret := set.Wait(0); ret != nvml.ERROR_UNKNOWN {
		t.Errorf("waiting on a set of the daemon before: %d", ret)
	}
	_, again := registered(t, lib)
	if _, err := n.Ctl("event", "--gpu=0", "--xid=13"); err != nil {
		t.Fatal(err)
	}
	ev, ret := again.Wait(60_000)
	check(t, "Wait on a new set", ret)
	if ev.EventData != 13 {
		t.Errorf("event %+v", ev)
	}
}

// A node that is told to stop does not wait for those who wait.
func TestStopWhileSomebodyWaits(t *testing.T) {
	n := simnode.Start(t, "mixed")
	_, set := registered(t, open(t, n))
	got := make(chan nvml.Return)
	go func() {
		_, ret := set.Wait(600_000)
		got <- ret
	}()
	begun := time.Now()
	n.Restart()
	if ret := <-got; ret == nvml.SUCCESS {
		t.Errorf("an event came from nowhere")
	}
	if passed := time.Since(begun); passed > 20*time.Second {
		t.Errorf("it took %v", passed)
	}
}
