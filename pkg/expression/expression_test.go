package expression_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleave-dra/cleave/pkg/expression"
)

const driver = "cleave.dev"

func nic() resourceapi.Device {
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	numa := int64(1)
	return resourceapi.Device{
		Name: "nic-0000-5e-00-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"type": text("nic"), "ifName": text("eth0"), "linkLayer": text("Ethernet"),
			"resource.kubernetes.io/pcieRoot": text("pci0000:5d"), "resource.kubernetes.io/numaNode": {IntValue: &numa},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": {Value: resource.MustParse("100G")}},
	}
}

func TestPredicate(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       bool
		wantErr    string
	}{
		"all":                  {expression: `true`, want: true},
		"none":                 {expression: `false`},
		"an attribute":         {expression: `device.attributes["cleave.dev"].linkLayer == "Ethernet"`, want: true},
		"another value":        {expression: `device.attributes["cleave.dev"].linkLayer == "InfiniBand"`},
		"a standard attribute": {expression: `device.attributes["resource.kubernetes.io"].numaNode == 1`, want: true},
		"a capacity":           {expression: `device.capacity["cleave.dev"].bandwidth.isGreaterThan(quantity("50G"))`, want: true},
		"the driver":           {expression: `device.driver == "cleave.dev"`, want: true},
		"exclusion of some":    {expression: `!device.attributes["cleave.dev"].ifName.matches("^eth[0-9]+$")`},
		"a guarded attribute":  {expression: `"rail" in device.attributes["cleave.dev"] && device.attributes["cleave.dev"].rail == 0`},
		"another domain":       {expression: `"rail" in device.attributes["example.com"]`},
		"an attribute that is missing": {expression: `device.attributes["cleave.dev"].rail == 0`,
			wantErr: "on nic-0000-5e-00-0: no such key: rail"},
		"an attribute that is no bool": {expression: `device.attributes["cleave.dev"].ifName`, wantErr: "bool"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			matches, err := expression.Compile(tc.expression, driver)
			if err != nil {
				t.Fatal(err)
			}
			got, err := matches(t.Context(), nic())
			if got != tc.want || (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, %v; want %v, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no CEL": "device.", "a number": "1 + 1", "unknown variable": `nic.name == "x"`, "unknown field": `device.name == "x"`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := expression.Compile(text, driver); err == nil || !strings.Contains(err.Error(), "compile expression") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPredicateCanceled(t *testing.T) {
	long := "[" + strings.Repeat("1,", 500) + "1]"
	matches, err := expression.Compile(long+`.all(x, `+long+`.all(y, x == y))`, driver)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := matches(ctx, nic()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
