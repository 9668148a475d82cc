package serve

import (
	"context"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// hangupInterval is how often a call that waits looks whether its client still
// lives. Clients wait some seconds at a time, so it hardly ever does.
const hangupInterval = 5 * time.Second

func supportedEvents(c *call) nvml.Return {
	if _, ret := c.gpuOnly(); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU64(1, simhw.SupportedEvents)
}

func createEventSet(c *call) nvml.Return {
	if c.null(0) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.writeToken(0, newToken(kindEventSet, 0, c.engine.CreateEventSet()))
}

// eventSet reads the handle of an event set.
func (c *call) eventSet(i int) (uint64, nvml.Return) {
	t := c.token(i)
	if t.kind() != kindEventSet {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return t.handle().Serial, nvml.SUCCESS
}

func registerEvents(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	set, ret := c.eventSet(2)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.RegisterEvents(set, d.gpu, c.u64(1))
}

// eventData has the layout of nvmlEventData_t.
type eventData struct {
	device token
	kind   uint64
	data   uint64
	gi, ci uint32
}

// waitEvent holds its connection until there is an event, the time is up, the
// client has gone or the daemon is told to end.
func waitEvent(c *call) nvml.Return {
	set, ret := c.eventSet(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.null(1) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	ctx, stop := c.whileConnected()
	defer stop()
	ev, ret := c.engine.WaitEvent(ctx, set, time.Duration(c.u32(2))*time.Millisecond, c.seesEvent)
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &eventData{device: c.gpuHandle(ev.GPU), kind: ev.Type, data: ev.Data, gi: ev.GI, ci: ev.CI})
}

// seesEvent: who may not see all of MIG gets the events of whole GPUs (nvml.h).
func (c *call) seesEvent(ev simhw.Event) bool {
	s := c.engine.Snapshot()
	return ev.GPU < len(s.GPUs) && c.view.seesGPU(s.GPUs[ev.GPU]) && (ev.GI == simhw.NoInstance || c.view.seesAllMIG())
}

func freeEventSet(c *call) nvml.Return {
	set, ret := c.eventSet(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.FreeEventSet(set)
}

// whileConnected ends when the client's end of the connection does.
func (c *call) whileConnected() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.ctx)
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return ctx, cancel
	}
	go func() {
		ticker := time.NewTicker(hangupInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if hungUp(socket) {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}

// hungUp asks without reading, since what can be read is the next call.
func hungUp(socket syscall.Conn) bool {
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0
	})
	return err != nil || gone
}
