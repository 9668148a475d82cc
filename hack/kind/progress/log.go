// Package progress tells a person what is going on: every line starts with the
// seconds since the start, and nothing long stays silent.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// heartbeat is how often something long says that it is still alive.
const heartbeat = 10 * time.Second

// Log writes progress lines. It is safe for use by several goroutines.
type Log struct {
	start time.Time
	mu    sync.Mutex
	out   io.Writer
}

// New starts the clock.
func New(out io.Writer) *Log {
	return &Log{start: time.Now(), out: out}
}

// Printf writes one line.
func (l *Log) Printf(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "[%4.0fs] %s\n", time.Since(l.start).Seconds(), text)
}

// Elapsed is the time since the start.
func (l *Log) Elapsed() time.Duration { return time.Since(l.start) }

// Watch announces something long and repeats it until the returned function is
// called. Detail, which may be nil, adds how far it has come.
func (l *Log) Watch(label string, detail func() string) (stop func()) {
	l.Printf("%s ...", label)
	begin := time.Now()
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticks := time.NewTicker(heartbeat)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				suffix := ""
				if detail != nil {
					if text := detail(); text != "" {
						suffix = ": " + text
					}
				}
				l.Printf("%s, for %.0f s so far%s", label, time.Since(begin).Seconds(), suffix)
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}
