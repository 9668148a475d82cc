package slices

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	stdslices "slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// problems collects everything that is wrong, so that it is mended in one go.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// name adds what keeps s from being a DNS label, at most 63 characters.
func (p *problems) name(what, s string) {
	for _, msg := range validation.IsDNS1123Label(s) {
		p.add("%s: name %q: %s", what, s, msg)
	}
}

// checkPool finds what the API server would refuse in one slice (Kubernetes'
// pkg/apis/resource/validation) and what the scheduler would refuse in the pool
// as a whole, where a single mistake makes all of it unusable.
func checkPool(name string, pool resourceslice.Pool) error {
	var p problems
	p.poolName(name)
	counterSets := map[string]resourceapi.CounterSet{}
	for i, slice := range pool.Slices {
		if len(slice.SharedCounters) > 0 && len(slice.Devices) > 0 {
			p.add("slice %d: holds counter sets and devices", i)
		}
		if n := len(slice.SharedCounters); n > resourceapi.ResourceSliceMaxCounterSets {
			p.add("slice %d: %d counter sets, at most %d are allowed", i, n, resourceapi.ResourceSliceMaxCounterSets)
		}
		if n := len(slice.Devices); n > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
			p.add("slice %d: %d devices, at most %d are allowed", i, n, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures)
		}
		for _, set := range slice.SharedCounters {
			if _, dup := counterSets[set.Name]; dup {
				p.add("counter set %s: name is not unique", set.Name)
			}
			counterSets[set.Name] = set
			p.counterSet(set)
		}
	}
	devices := sets.New[string]()
	for _, slice := range pool.Slices {
		for _, d := range slice.Devices {
			if devices.Has(d.Name) {
				p.add("device %s: name is not unique", d.Name)
			}
			devices.Insert(d.Name)
			p.device(d, counterSets)
		}
	}
	return errors.Join(p...)
}

func (p *problems) poolName(name string) {
	if len(name) > resourceapi.PoolNameMaxLength {
		p.add("pool name: %d characters, at most %d are allowed", len(name), resourceapi.PoolNameMaxLength)
	}
	for part := range strings.SplitSeq(name, "/") {
		for _, msg := range validation.IsDNS1123Subdomain(part) {
			p.add("pool name: part %q: %s", part, msg)
		}
	}
}

func (p *problems) counterSet(set resourceapi.CounterSet) {
	what := "counter set " + set.Name
	p.name(what, set.Name)
	p.counterNames(what, set.Counters, resourceapi.ResourceSliceMaxCountersPerCounterSet)
	for _, name := range stdslices.Sorted(maps.Keys(set.Counters)) {
		if value := set.Counters[name].Value; value.Sign() < 0 {
			p.add("%s: counter %s is negative: %s", what, name, value.String())
		}
	}
}

func (p *problems) counterNames(what string, counters map[string]resourceapi.Counter, limit int) {
	if n := len(counters); n == 0 || n > limit {
		p.add("%s: %d counters, 1 to %d are allowed", what, n, limit)
	}
	for _, name := range stdslices.Sorted(maps.Keys(counters)) {
		p.name(what+": counter", name)
	}
}

func (p *problems) device(d resourceapi.Device, counterSets map[string]resourceapi.CounterSet) {
	what := "device " + d.Name
	p.name(what, d.Name)
	if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		p.add("%s: %d attributes and capacities, at most %d are allowed", what, n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	if n := values(d.Attributes); n > resourceapi.ResourceSliceMaxAttributeValuesPerDevice {
		p.add("%s: attributes with %d values, at most %d are allowed", what, n, resourceapi.ResourceSliceMaxAttributeValuesPerDevice)
	}
	for _, name := range stdslices.Sorted(maps.Keys(d.Attributes)) {
		p.attribute(fmt.Sprintf("%s: attribute %s", what, name), d.Attributes[name])
	}
	if n := len(d.ConsumesCounters); n > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		p.add("%s: consumes from %d counter sets, at most %d are allowed", what, n, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	}
	consumed := sets.New[string]()
	for _, consumption := range d.ConsumesCounters {
		if consumed.Has(consumption.CounterSet) {
			p.add("%s: consumes twice from counter set %s", what, consumption.CounterSet)
		}
		consumed.Insert(consumption.CounterSet)
		p.consumption(what, consumption, counterSets)
	}
	p.shared(what, d)
	if n := len(d.Taints); n > resourceapi.DeviceTaintsMaxLength {
		p.add("%s: %d taints, at most %d are allowed", what, n, resourceapi.DeviceTaintsMaxLength)
	}
	for _, taint := range d.Taints {
		p.taint(what, taint)
	}
}

// values counts those of all attributes; lists here are of numbers only.
func values(attrs attributes) int {
	n := 0
	for _, a := range attrs {
		n += max(1, len(a.IntValues))
	}
	return n
}

// consumption checks that what a device takes exists and is enough of it for at
// least this device.
func (p *problems) consumption(what string, c resourceapi.DeviceCounterConsumption, counterSets map[string]resourceapi.CounterSet) {
	p.counterNames(what, c.Counters, resourceapi.ResourceSliceMaxCountersPerDeviceCounterConsumption)
	set, ok := counterSets[c.CounterSet]
	if !ok {
		p.add("%s: counter set %s does not exist", what, c.CounterSet)
		return
	}
	for _, name := range stdslices.Sorted(maps.Keys(c.Counters)) {
		total, ok := set.Counters[name]
		switch taken := c.Counters[name].Value; {
		case !ok:
			p.add("%s: counter %s does not exist in set %s", what, name, c.CounterSet)
		case taken.Sign() < 0 || taken.Cmp(total.Value) > 0:
			p.add("%s: takes %s of counter %s, which has %s", what, taken.String(), name, total.Value.String())
		}
	}
}

// semverPattern is the API server's, without pre-release and build parts, which
// this package never publishes.
var semverPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

func (p *problems) attribute(what string, a resourceapi.DeviceAttribute) {
	text := a.StringValue
	if a.VersionValue != nil {
		text = a.VersionValue
		if !semverPattern.MatchString(*text) {
			p.add("%s: %q is not a semantic version", what, *text)
		}
	}
	if text != nil && len(*text) > resourceapi.DeviceAttributeMaxValueLength {
		p.add("%s: %d bytes, at most %d are allowed", what, len(*text), resourceapi.DeviceAttributeMaxValueLength)
	}
}

func (p *problems) taint(what string, t resourceapi.DeviceTaint) {
	for _, msg := range validation.IsQualifiedName(t.Key) {
		p.add("%s: taint key %q: %s", what, t.Key, msg)
	}
	for _, msg := range validation.IsValidLabelValue(t.Value) {
		p.add("%s: taint %s: value %q: %s", what, t.Key, t.Value, msg)
	}
	switch t.Effect {
	case resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute:
	default:
		p.add("%s: taint %s: unknown effect %q", what, t.Key, t.Effect)
	}
}
