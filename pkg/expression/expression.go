// Package expression decides over devices by expressions in the language of the
// selectors of ResourceClaims and DeviceClasses, before the devices are published. It is
// pure.
package expression

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Predicate tells whether an expression is true of a device. An expression that cannot
// be evaluated, for example because the device lacks an attribute that it names, is
// an error.
type Predicate func(ctx context.Context, device resourceapi.Device) (bool, error)

// Compile reads a CEL expression. As in a selector, device.driver is the driver,
// device.attributes[driver] and device.capacity[driver] have what the device would be
// published with, and one that has none of a domain has an empty one.
func Compile(expression, driver string) (Predicate, error) {
	compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).
		CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return nil, fmt.Errorf("compile expression %q: %w", expression, compiled.Error)
	}
	return func(ctx context.Context, device resourceapi.Device) (bool, error) {
		matches, _, err := compiled.DeviceMatches(ctx, cel.Device{
			Driver: driver, Attributes: device.Attributes, Capacity: device.Capacity,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
		})
		if err != nil {
			return false, fmt.Errorf("evaluate expression %q on %s: %w", expression, device.Name, err)
		}
		return matches, nil
	}, nil
}
