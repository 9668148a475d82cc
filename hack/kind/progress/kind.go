package progress

import (
	"strings"

	"sigs.k8s.io/kind/pkg/log"
)

// Kind adapts a Log to what kind's library writes to.
func Kind(l *Log) log.Logger { return kindLogger{l} }

type kindLogger struct{ log *Log }

func (k kindLogger) Warn(message string)           { k.log.Printf("kind warns: %s", message) }
func (k kindLogger) Warnf(format string, a ...any) { k.log.Printf("kind warns: "+format, a...) }
func (k kindLogger) Error(message string)          { k.log.Printf("kind: %s", message) }
func (k kindLogger) Errorf(f string, a ...any)     { k.log.Printf("kind: "+f, a...) }
func (k kindLogger) V(level log.Level) log.InfoLogger {
	return kindInfo{log: k.log, enabled: level == 0}
}

type kindInfo struct {
	log     *Log
	enabled bool
}

func (k kindInfo) Enabled() bool { return k.enabled }

func (k kindInfo) Info(message string) {
	if message = strings.TrimSpace(message); k.enabled && message != "" {
		k.log.Printf("kind: %s", message)
	}
}

func (k kindInfo) Infof(format string, args ...any) {
	if k.enabled {
		k.log.Printf("kind: "+strings.TrimSpace(format), args...)
	}
}
