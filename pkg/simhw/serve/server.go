// Package serve answers the NVML calls that the simulated libnvidia-ml.so.1 of
// other processes forwards, from an engine. Every connection shows its client the
// devices whose nodes it has, and lets only a holder of the MIG config capability
// change anything.
package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Server answers clients of one engine.
type Server struct {
	engine   *simhw.Engine
	majors   Majors
	sessions sessions
}

// New makes a server; majors are the numbers of the nodes that clients see.
func New(engine *simhw.Engine, majors Majors) *Server {
	return &Server{engine: engine, majors: majors}
}

// Refresh makes all clients connect anew, which the library does by itself: what
// device nodes a client has is known only from the start of its connection.
func (s *Server) Refresh() { s.sessions.outdate() }

// Serve accepts clients until ctx ends, then closes the listener, lets the calls
// that are under way finish and returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept NVML client: %w", err)
		}
		clients.Go(func() {
			defer conn.Close()
			// A deadline in the past ends a read that waits, not an answer.
			stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
			defer stop()
			if err := s.client(ctx, conn); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Dropped an NVML client", "err", err)
			}
		})
	}
}

// client talks with one connection until it ends.
func (s *Server) client(ctx context.Context, conn net.Conn) error {
	me := s.sessions.add(conn)
	defer s.sessions.remove(me)
	r := bufio.NewReader(conn)
	greeting, err := readGreeting(r)
	if err != nil {
		return ended(err)
	}
	v, err := newView(greeting, s.majors)
	if err != nil {
		return err
	}
	ret := v.admitted()
	if ret == nvml.SUCCESS {
		ret, _ = s.engine.Enter(ctx, simhw.Call{Function: simhw.CallInit, GPU: -1, Instance: -1}).Ends()
	}
	since := s.engine.Sequence()
	if err := writeCode(conn, ret); err != nil || ret != nvml.SUCCESS {
		return ended(err)
	}
	for {
		req, err := readRequest(r)
		if err != nil || !s.sessions.begin(me) {
			return ended(err)
		}
		c := &call{ctx: ctx, conn: conn, engine: s.engine, view: v, since: since, arguments: req.arguments}
		ret := c.run(req.function)
		if ret != nvml.SUCCESS {
			c.outputs = c.failing // all that a failed call may write
		}
		klog.FromContext(ctx).V(6).Info("Answered", "function", req.function, "code", ret)
		if err := writeAnswer(conn, ret, c.outputs); err != nil || !s.sessions.end(me) {
			return ended(err)
		}
	}
}

// ended is nil for a client that went away.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
