package selector

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Known is what is known of a device. What it does not mention, the device lacks.
type Known struct {
	// Driver is the device's, and the domain of names without one.
	Driver string
	// Text are the attributes whose values are known strings, Size the capacities whose
	// values are known.
	Text map[resourceapi.QualifiedName]string
	Size map[resourceapi.QualifiedName]resource.Quantity
	// Attributes and Capacity are there, or may be, with values that are not known.
	Attributes []resourceapi.QualifiedName
	Capacity   []resourceapi.QualifiedName
}

// Device is such a device in CEL's form.
type Device struct {
	variables cel.PartialActivation
}

// The variable of selectors and its fields (k8s.io/dynamic-resource-allocation/cel).
const (
	deviceVar     = "device"
	driverVar     = "driver"
	attributesVar = "attributes"
	capacityVar   = "capacity"
	multiAllocVar = "allowMultipleAllocations"
)

// NewDevice makes the device of which this is known. Whether it allows multiple
// allocations is not.
func NewDevice(k Known) (Device, error) {
	attributes, capacity := map[string]any{}, map[string]any{}
	for name, value := range k.Text {
		set(attributes, k.Driver, name, value)
	}
	for name, value := range k.Size {
		set(capacity, k.Driver, name, apiservercel.Quantity{Quantity: &value})
	}
	unknown := []*cel.AttributePatternType{cel.AttributePattern(deviceVar).QualString(multiAllocVar)}
	for field, names := range map[string][]resourceapi.QualifiedName{attributesVar: k.Attributes, capacityVar: k.Capacity} {
		for _, name := range names {
			domain, id := split(k.Driver, name)
			unknown = append(unknown, cel.AttributePattern(deviceVar).QualString(field).QualString(domain).QualString(id))
		}
	}
	variables, err := cel.PartialVars(map[string]any{deviceVar: map[string]any{
		driverVar:     k.Driver,
		attributesVar: newDomains(attributes),
		capacityVar:   newDomains(capacity),
	}}, unknown...)
	if err != nil {
		return Device{}, fmt.Errorf("describe a device of %s to CEL: %w", k.Driver, err)
	}
	return Device{variables: variables}, nil
}

func set(all map[string]any, driver string, name resourceapi.QualifiedName, value any) {
	domain, id := split(driver, name)
	if all[domain] == nil {
		all[domain] = map[string]any{}
	}
	all[domain].(map[string]any)[id] = value
}

// split takes a name apart; one without a domain has the driver's.
func split(driver string, name resourceapi.QualifiedName) (domain, id string) {
	if domain, id, ok := strings.Cut(string(name), "/"); ok {
		return domain, id
	}
	return driver, string(name)
}

// domains is a map in which a domain that is not there is found empty, as in the
// scheduler's (newStringInterfaceMapWithDefault in its package cel).
type domains struct {
	traits.Mapper
	empty ref.Val
}

func newDomains(values map[string]any) traits.Mapper {
	adapter := types.DefaultTypeAdapter
	return domains{types.NewStringInterfaceMap(adapter, values), adapter.NativeToValue(map[string]any{})}
}

func (d domains) Find(key ref.Val) (ref.Val, bool) {
	if value, found := d.Mapper.Find(key); found {
		return value, true
	}
	return d.empty, true
}
