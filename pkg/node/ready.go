package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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
	live       cache.Store
}

// want sets what is to be published.
func (r *readiness) want(resources resourceslice.DriverResources) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = &resources
	r.compare()
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

// changed notes that our slices in the API server changed.
func (r *readiness) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compare()
}

// check is the answer to /readyz.
func (r *readiness) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if !r.registered {
		errs = append(errs, errors.New("not registered with the kubelet; does it watch the directory given as --kubelet-registrar-dir?"))
	}
	if r.rejected != nil {
		errs = append(errs, fmt.Errorf("publish ResourceSlices: %w", r.rejected))
	} else if !r.published {
		errs = append(errs, errors.New("ResourceSlices are not published yet"))
	}
	return errors.Join(errs...)
}

// compare latches published when every wanted pool is complete in its newest
// generation. The caller holds the lock.
func (r *readiness) compare() {
	if r.wanted == nil || r.live == nil {
		return
	}
	for name, pool := range r.wanted.Pools {
		if !complete(newest(r.live, name), pool) {
			return
		}
	}
	r.published, r.rejected = true, nil
}

// newest are a pool's slices of the highest generation.
func newest(live cache.Store, pool string) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, obj := range live.List() {
		s, ok := obj.(*resourceapi.ResourceSlice)
		switch {
		case !ok || s.Spec.Pool.Name != pool:
		case len(out) == 0 || s.Spec.Pool.Generation > out[0].Spec.Pool.Generation:
			out = []*resourceapi.ResourceSlice{s}
		case s.Spec.Pool.Generation == out[0].Spec.Pool.Generation:
			out = append(out, s)
		}
	}
	return out
}

// complete tells whether the live slices are exactly the wanted ones.
func complete(live []*resourceapi.ResourceSlice, want resourceslice.Pool) bool {
	if len(live) != len(want.Slices) {
		return false
	}
	left := append([]*resourceapi.ResourceSlice(nil), live...)
	for _, w := range want.Slices {
		found := false
		for i, s := range left {
			if s != nil && resourceslice.DevicesDeepEqual(s.Spec.Devices, w.Devices) &&
				equality.Semantic.DeepEqual(s.Spec.SharedCounters, w.SharedCounters) {
				left[i], found = nil, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// needed keeps of a slice only what complete looks at. The copy is the
// informer's own; what the library needs, it caches itself.
func needed(obj any) (any, error) {
	s, ok := obj.(*resourceapi.ResourceSlice)
	if !ok {
		return obj, nil
	}
	meta := metav1.ObjectMeta{Name: s.Name, ResourceVersion: s.ResourceVersion, UID: s.UID}
	spec := resourceapi.ResourceSliceSpec{Pool: s.Spec.Pool, Devices: s.Spec.Devices, SharedCounters: s.Spec.SharedCounters}
	return &resourceapi.ResourceSlice{ObjectMeta: meta, Spec: spec}, nil
}

// watch prepares to follow this node's slices; run does it until its context is
// done. A deleted slice wakes the publisher, which then writes it again at once;
// the library alone would take half a minute.
func (r *readiness) watch(kube kubernetes.Interface, driverName, nodeName string, deleted func()) (run func(context.Context), err error) {
	selector := fields.Set{
		resourceapi.ResourceSliceSelectorDriver:   driverName,
		resourceapi.ResourceSliceSelectorNodeName: nodeName,
	}.AsSelector().String()
	// Not from client-go's factory: that would link the informers of every API.
	informer := resourceinformers.NewFilteredResourceSliceInformer(kube, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = selector })
	if err := informer.SetTransform(needed); err != nil {
		return nil, fmt.Errorf("watch ResourceSlices: %w", err)
	}
	r.mu.Lock()
	r.live = informer.GetStore()
	r.mu.Unlock()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { r.changed() },
		UpdateFunc: func(_, _ any) { r.changed() },
		DeleteFunc: func(any) { deleted() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch ResourceSlices: %w", err)
	}
	return informer.RunWithContext, nil
}
