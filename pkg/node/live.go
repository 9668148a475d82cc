package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// liveSlices follows the ResourceSlices of this node in the API server: ours, to
// know whether they are what we want, and those of other drivers, to know whether
// one of them offers the same GPUs. It keeps no more of them than that takes.
type liveSlices struct {
	driver string
	kube   kubernetes.Interface

	mu     sync.Mutex
	store  cache.Store
	synced cache.InformerSynced
}

func (l *liveSlices) init(driver string, kube kubernetes.Interface) { l.driver, l.kube = driver, kube }

// digestAnnotation has, in the cache only, what our slices' content comes down to.
const digestAnnotation = "cleave.dev/digest"

// needed is what is kept of a slice. The copy is the informer's own; what the
// library needs, it caches itself. An informer may ask for the same object again,
// whose content is gone then.
func (l *liveSlices) needed(obj any) (any, error) {
	s, ok := obj.(*resourceapi.ResourceSlice)
	if !ok {
		return obj, nil
	}
	if s.Annotations[digestAnnotation] != "" {
		return s, nil
	}
	out := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, ResourceVersion: s.ResourceVersion, UID: s.UID},
		Spec:       resourceapi.ResourceSliceSpec{Driver: s.Spec.Driver, Pool: s.Spec.Pool},
	}
	if s.Spec.Driver == l.driver {
		out.Annotations = map[string]string{digestAnnotation: digest(s.Spec.Devices, s.Spec.SharedCounters)}
		return out, nil
	}
	for _, d := range s.Spec.Devices {
		slim := resourceapi.Device{Name: d.Name}
		if id, ok := d.Attributes[deviceattribute.StandardDeviceAttributePCIBusID]; ok {
			slim.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{deviceattribute.StandardDeviceAttributePCIBusID: id}
		}
		out.Spec.Devices = append(out.Spec.Devices, slim)
	}
	return out, nil
}

// digest is equal for slices with equal content; when a taint was added does not
// count, since the API server fills that in.
func digest(devices []resourceapi.Device, counters []resourceapi.CounterSet) string {
	plain := make([]resourceapi.Device, len(devices))
	for i, d := range devices {
		plain[i] = d
		plain[i].Taints = nil
		for _, taint := range d.Taints {
			taint.TimeAdded = nil
			plain[i].Taints = append(plain[i].Taints, taint)
		}
	}
	raw, err := json.Marshal([]any{plain, counters})
	if err != nil {
		return err.Error() // API types always encode
	}
	sum := sha256.Sum256(raw)
	return string(sum[:])
}

// watch prepares to follow the node's slices; run does it until its context is
// done. Every change of ours calls changed. A deleted slice of ours, or a slice of
// another driver that comes or goes, wakes the publisher: it writes ours again at
// once, where the library alone would take half a minute.
func (l *liveSlices) watch(nodeName string, changed func(*liveSlices), wake func()) (run func(context.Context), err error) {
	selector := fields.Set{resourceapi.ResourceSliceSelectorNodeName: nodeName}.AsSelector().String()
	// Not from client-go's factory: that would link the informers of every API.
	informer := resourceinformers.NewFilteredResourceSliceInformer(l.kube, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = selector })
	if err := informer.SetTransform(l.needed); err != nil {
		return nil, fmt.Errorf("watch ResourceSlices: %w", err)
	}
	l.mu.Lock()
	l.store, l.synced = informer.GetStore(), informer.HasSynced
	l.mu.Unlock()
	ours := func(obj any) bool {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		s, ok := obj.(*resourceapi.ResourceSlice)
		return ok && s.Spec.Driver == l.driver
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if !ours(obj) {
				wake()
				return
			}
			changed(l)
		},
		UpdateFunc: func(_, obj any) {
			if ours(obj) {
				changed(l)
			}
		},
		DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch ResourceSlices: %w", err)
	}
	return informer.RunWithContext, nil
}

var errNotSynced = errors.New("list this node's ResourceSlices: the API server has not answered yet")

// list is what the API server has, or an error before it has answered.
func (l *liveSlices) list() ([]*resourceapi.ResourceSlice, error) {
	l.mu.Lock()
	store, synced := l.store, l.synced
	l.mu.Unlock()
	if synced == nil || !synced() {
		return nil, errNotSynced
	}
	var out []*resourceapi.ResourceSlice
	for _, obj := range store.List() {
		if s, ok := obj.(*resourceapi.ResourceSlice); ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// complete tells whether, of each wanted pool, the newest generation is exactly the
// wanted slices.
func (l *liveSlices) complete(want resourceslice.DriverResources) bool {
	all, err := l.list()
	if err != nil {
		return false
	}
	for name, pool := range want.Pools {
		if !samePool(l.newest(all, name), pool) {
			return false
		}
	}
	return true
}

// newest are the slices of one of our pools, of the highest generation.
func (l *liveSlices) newest(all []*resourceapi.ResourceSlice, pool string) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, s := range all {
		switch {
		case s.Spec.Driver != l.driver || s.Spec.Pool.Name != pool:
		case len(out) == 0 || s.Spec.Pool.Generation > out[0].Spec.Pool.Generation:
			out = []*resourceapi.ResourceSlice{s}
		case s.Spec.Pool.Generation == out[0].Spec.Pool.Generation:
			out = append(out, s)
		}
	}
	return out
}

// samePool tells whether the live slices are exactly the wanted ones.
func samePool(live []*resourceapi.ResourceSlice, want resourceslice.Pool) bool {
	left := map[string]int{}
	for _, s := range live {
		left[s.Annotations[digestAnnotation]]++
	}
	for _, w := range want.Slices {
		left[digest(w.Devices, w.SharedCounters)]--
	}
	for _, n := range left {
		if n != 0 {
			return false
		}
	}
	return true
}
