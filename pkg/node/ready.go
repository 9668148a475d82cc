package node

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// readiness knows whether the plugin does its work: it is registered with the
// kubelet, and the slices in the API server are those that it wants. Once that
// was so it stays so while slices are being rewritten; a rejected slice ends it.
type readiness struct {
	mu         sync.Mutex
	wanted     *resourceslice.DriverResources
	registered bool
	published  bool
	rejected   error
	// refused says why nothing is published.
	refused error
}

// want sets what is to be published, or why that is nothing.
func (r *readiness) want(resources resourceslice.DriverResources, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted, r.refused = &resources, refused
}

// register notes what the kubelet said about the registration.
func (r *readiness) register(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registered = ok
}

// reject notes that the API server did not take a slice.
func (r *readiness) reject(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published, r.rejected = false, err
}

// check is the answer to /readyz.
func (r *readiness) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if !r.registered {
		errs = append(errs, errors.New("not registered with the kubelet; does it watch the directory given as --kubelet-registrar-dir?"))
	}
	if r.refused != nil {
		errs = append(errs, r.refused)
	}
	if r.rejected != nil {
		errs = append(errs, fmt.Errorf("publish ResourceSlices: %w", r.rejected))
	} else if !r.published {
		errs = append(errs, errors.New("ResourceSlices are not published yet"))
	}
	return errors.Join(errs...)
}

// compare latches published when the API server has exactly the wanted slices.
func (r *readiness) compare(live *liveSlices) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted != nil && live.complete(*r.wanted) {
		r.published, r.rejected = true, nil
	}
}
