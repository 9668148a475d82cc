package node

import (
	"context"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Feature gates of the API server, as the library's DroppedFieldsError names them.
const (
	featurePartitionableDevices = "DRAPartitionableDevices"
	featureDeviceTaints         = "DRADeviceTaints"
	// featureListTypeAttributes is off by default. What needs it is not dropped but
	// makes the API server refuse the slice, so the library never names it.
	featureListTypeAttributes = "DRAListTypeAttributes"
)

// dropped remembers which features the API server lacks. Without counters MIG
// slices would look independent of each other, so only whole GPUs are published.
type dropped struct {
	mu       sync.Mutex
	features map[string]bool
	probed   bool
}

// add notes features and tells whether any is new. One that is not known here can
// only be answered by publishing as little as possible.
func (d *dropped) add(features ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.features == nil {
		d.features = map[string]bool{}
	}
	before := len(d.features)
	for _, f := range features {
		if f != featureDeviceTaints && f != featureListTypeAttributes {
			f = featurePartitionableDevices
		}
		d.features[f] = true
	}
	return len(d.features) > before
}

func (d *dropped) has(feature string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.features[feature]
}

// probe asks the API server once, by dry runs, what it keeps: slices that it had stored
// without their shared counters would be a promise that nobody keeps, and one with a list
// that it does not know it would refuse.
func (p *Plugin) probe(ctx context.Context) error {
	p.dropped.mu.Lock()
	done := p.dropped.probed
	p.dropped.mu.Unlock()
	if done {
		return nil
	}
	logger := klog.FromContext(ctx)
	got, err := p.dryRun(ctx, resourceapi.ResourceSliceSpec{SharedCounters: []resourceapi.CounterSet{{
		Name: "probe", Counters: map[string]resourceapi.Counter{"probe": {Value: resource.MustParse("1")}},
	}}})
	if err != nil {
		return fmt.Errorf("ask the API server, by a dry run, whether it keeps shared counters: %w", err)
	}
	if len(got.SharedCounters) == 0 {
		p.dropped.add(featurePartitionableDevices)
		logger.Info("The API server drops shared counters: only whole GPUs are published", "disabledFeature", featurePartitionableDevices)
	}
	lists, err := p.keepsLists(ctx)
	if err != nil {
		return err
	}
	if !lists {
		p.dropped.add(featureListTypeAttributes)
		logger.V(2).Info("The API server refuses attributes with several values: the NUMA node of a device is published alone", "disabledFeature", featureListTypeAttributes)
	}
	p.dropped.mu.Lock()
	defer p.dropped.mu.Unlock()
	p.dropped.probed = true
	return nil
}

// keepsLists asks about attributes with several values. With the feature off the API
// server drops the list and finds the attribute without a value invalid. A slice of the
// same driver, node and pool has just passed, so nothing else is invalid here.
func (p *Plugin) keepsLists(ctx context.Context) (bool, error) {
	got, err := p.dryRun(ctx, resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{{
		Name: "probe", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"probe": {IntValues: []int64{0, 1}}},
	}}})
	if apierrors.IsInvalid(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the API server, by a dry run, whether it takes attributes with several values: %w", err)
	}
	return len(got.Devices) == 1 && len(got.Devices[0].Attributes["probe"].IntValues) == 2, nil
}

// dryRun returns what the API server would store of a slice. It is in a pool of its own:
// a dry run changes nothing, but the name should not mislead.
func (p *Plugin) dryRun(ctx context.Context, spec resourceapi.ResourceSliceSpec) (resourceapi.ResourceSliceSpec, error) {
	spec.Driver, spec.NodeName = p.cfg.DriverName, &p.cfg.NodeName
	spec.Pool = resourceapi.ResourcePool{Name: p.cfg.NodeName + "/probe", ResourceSliceCount: 1}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "cleave-probe-"}, Spec: spec}
	got, err := p.deps.Kube.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return resourceapi.ResourceSliceSpec{}, err
	}
	return got.Spec, nil
}
