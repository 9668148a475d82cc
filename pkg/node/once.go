package node

import (
	"sync"

	"github.com/go-logr/logr"
)

// once logs what every rescan would find again only when it is new.
type once struct {
	mu   sync.Mutex
	said map[string]bool
}

func (o *once) log(logger logr.Logger, message string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := message + err.Error()
	if o.said[key] {
		return
	}
	if o.said == nil {
		o.said = map[string]bool{}
	}
	o.said[key] = true
	logger.Info(message, "err", err)
}
