package node

import (
	"context"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Feature gates of the API server, as the library's DroppedFieldsError names them.
const (
	featurePartitionableDevices = "DRAPartitionableDevices"
	featureDeviceTaints         = "DRADeviceTaints"
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
		if f != featureDeviceTaints {
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

// probe asks the API server once, by a dry run, whether it keeps shared counters:
// slices that it had stored without them would be a promise that nobody keeps.
func (p *Plugin) probe(ctx context.Context) error {
	p.dropped.mu.Lock()
	done := p.dropped.probed
	p.dropped.mu.Unlock()
	if done {
		return nil
	}
	want := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cleave-probe-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   p.cfg.DriverName,
			NodeName: &p.cfg.NodeName,
			// A pool of its own: a dry run changes nothing, but the name should not mislead.
			Pool: resourceapi.ResourcePool{Name: p.cfg.NodeName + "/probe", ResourceSliceCount: 1},
			SharedCounters: []resourceapi.CounterSet{{
				Name: "probe", Counters: map[string]resourceapi.Counter{"probe": {Value: resource.MustParse("1")}},
			}},
		},
	}
	got, err := p.deps.Kube.ResourceV1().ResourceSlices().Create(ctx, want, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("ask the API server, by a dry run, whether it keeps shared counters: %w", err)
	}
	if len(got.Spec.SharedCounters) == 0 {
		p.dropped.add(featurePartitionableDevices)
		klog.FromContext(ctx).Info("The API server drops shared counters: only whole GPUs are published", "disabledFeature", featurePartitionableDevices)
	}
	p.dropped.mu.Lock()
	defer p.dropped.mu.Unlock()
	p.dropped.probed = true
	return nil
}
