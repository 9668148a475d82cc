package serve

import (
	"net"
	"sync"
)

// sessions are the connections that there are.
type sessions struct {
	mu  sync.Mutex
	all map[*session]bool
}

// session is one connection. Its client told which device nodes it has when it
// came, so when nodes come or go it has to come again.
type session struct {
	conn net.Conn
	// busy tells that a call is under way, outdated that the connection is to end.
	busy, outdated bool
}

func (s *sessions) add(conn net.Conn) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*session]bool{}
	}
	c := &session{conn: conn}
	s.all[c] = true
	return c
}

func (s *sessions) remove(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// begin is called before each call and end after its answer; false tells that the
// connection has ended.
func (s *sessions) begin(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.busy = true
	return !c.outdated
}

func (s *sessions) end(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.busy = false
	return !c.outdated
}

// outdate ends the connections that wait for their client, and lets the others
// answer first.
func (s *sessions) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		c.outdated = true
		if !c.busy {
			c.conn.Close()
		}
	}
}
