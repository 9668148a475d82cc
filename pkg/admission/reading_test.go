package admission

import (
	stdslices "slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// published are all devices that are published for all known servers.
func published(t *testing.T) []resourceapi.Device {
	t.Helper()
	var out []resourceapi.Device
	for _, name := range catalog.Servers() {
		server, _, err := catalog.LoadServer(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, pairs := range []bool{false, true} {
			resources, err := slices.Build(server.Node(), slices.Options{NodeName: "n", Partitions: true, Pairs: pairs})
			if err != nil {
				t.Fatal(err)
			}
			for _, pool := range resources.Pools {
				for _, slice := range pool.Slices {
					out = append(out, slice.Devices...)
				}
			}
		}
	}
	return out
}

// TestReadingIsWhatTheSchedulerDoes: no device is selected whose type was ruled out,
// and no selector fails on a device without a warning that it may.
func TestReadingIsWhatTheSchedulerDoes(t *testing.T) {
	expressions := []string{
		`true`,
		`device.driver == "cleave.dev"`,
		`device.driver == "cleave.dev" && device.attributes["cleave.dev"].type == "mig"`,
		`device.driver == "cleave.dev" && device.attributes["cleave.dev"].?profile.orValue("") == "1g.10gb"`,
		`device.attributes["cleave.dev"].type in ["gpu", "gpu-nic"]`,
		`device.attributes["cleave.dev"].profile.startsWith("1g")`,
		`has(device.attributes["cleave.dev"].profile) && device.attributes["cleave.dev"].profile.endsWith("+me")`,
		`device.attributes["cleave.dev"].rail == 0 || device.attributes["cleave.dev"].type == "gpu"`,
		`device.attributes["resource.kubernetes.io"].numaNode == 0`,
		`device.capacity["cleave.dev"].memory.isGreaterThan(quantity("15Gi"))`,
		`device.capacity["cleave.dev"].bandwidth.compareTo(quantity("400G")) >= 0`,
		`device.capacity["cleave.dev"].encoders.isGreaterThan(quantity("0"))`,
		`device.attributes["cleave.dev"].productName.contains("H100") && device.capacity["cleave.dev"].memory.isLessThan(quantity("1Gi"))`,
		`device.attributes["cleave.dev"].type == "gpu" ? device.attributes["cleave.dev"].uuid != "" : device.attributes["cleave.dev"].parentUUID != ""`,
		`cel.bind(d, device.attributes["cleave.dev"], d.type == "nic" && d.linkLayer == "InfiniBand")`,
		`["gpu", "nic"].exists(t, t == device.attributes["cleave.dev"].type)`,
		`!device.allowMultipleAllocations`,
	}
	r := reviewer(t).reader
	selected, failed := 0, 0
	devices := published(t)
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true})
	for _, expression := range expressions {
		own := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		meaning := r.read(nil, own)
		compiled := compiler.CompileCELExpression(expression, dracel.Options{})
		if compiled.Error != nil {
			t.Fatalf("%s: %v", expression, compiled.Error)
		}
		for _, d := range devices {
			kind := params.DeviceType(*d.Attributes[slices.AttributeType].StringValue)
			matches, _, err := compiled.DeviceMatches(t.Context(), dracel.Device{Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity})
			if err != nil && len(meaning.warnings[0]) == 0 {
				t.Fatalf("%s: no warning, but on %s: %v", expression, d.Name, err)
			}
			if err != nil {
				failed++
			}
			if matches {
				selected++
			}
			if matches && !stdslices.Contains(meaning.types, kind) {
				t.Fatalf("%s: selects %s, which is of type %s; read as %v", expression, d.Name, kind, meaning.types)
			}
		}
	}
	if selected == 0 || failed == 0 {
		t.Errorf("%d devices selected, %d failed on: the test shows nothing", selected, failed)
	}
}

// TestReadingRulesOut: the reading is not only safe, it tells something.
func TestReadingRulesOut(t *testing.T) {
	tests := map[string]struct {
		expression string
		types      []params.DeviceType
		others     bool
	}{
		"one type":           {expression: `device.driver == "cleave.dev" && device.attributes["cleave.dev"].type == "nic"`, types: []params.DeviceType{params.NIC}},
		"by profile":         {expression: `device.driver == "cleave.dev" && device.attributes["cleave.dev"].?profile.orValue("") == "1g.10gb"`, types: []params.DeviceType{params.MIGSlice}},
		"two types":          {expression: `device.driver == "cleave.dev" && device.attributes["cleave.dev"].type in ["gpu", "gpu-nic"]`, types: []params.DeviceType{params.WholeGPU, params.Pair}},
		"by presence":        {expression: `device.driver == "cleave.dev" && has(device.attributes["cleave.dev"].uuid)`, types: []params.DeviceType{params.WholeGPU, params.Pair}},
		"every type":         {expression: `device.driver == "cleave.dev"`, types: params.DeviceTypes()},
		"another driver":     {expression: `device.driver == "gpu.nvidia.com"`, others: true},
		"nearly ours":        {expression: `device.driver == "cleave.device"`, others: true},
		"any driver":         {expression: `true`, types: params.DeviceTypes(), others: true},
		"all but another":    {expression: `device.driver != "gpu.nvidia.com"`, types: params.DeviceTypes(), others: true},
		"ours or another's":  {expression: `device.driver == "cleave.dev" || device.driver == 'gpu.nvidia.com'`, types: params.DeviceTypes(), others: true},
		"another, if it has": {expression: `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`, others: true},
	}
	r := reviewer(t).reader
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := r.read([]resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: tc.expression}}}, nil)
			if !stdslices.Equal(got.types, tc.types) || got.others != tc.others {
				t.Errorf("types %v, others %v; want %v, %v", got.types, got.others, tc.types, tc.others)
			}
		})
	}
}
