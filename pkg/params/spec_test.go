package params

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

// wanted is a configuration in a claim's spec.
func wanted(driver, raw string, requests ...string) resourceapi.DeviceClaimConfiguration {
	c := resourceapi.DeviceClaimConfiguration{Requests: requests}
	c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(raw)}}
	return c
}

func kindFor(kind, more string) string {
	return fmt.Sprintf(`{"apiVersion":"cleave.dev/v1alpha1","kind":%q%s}`, kind, more)
}

func ask(name string, types ...DeviceType) Asked { return Asked{Name: name, Types: types} }

func TestForSpec(t *testing.T) {
	var (
		gpuConfig  = kindFor("GPUConfig", "")
		migConfig  = kindFor("MIGConfig", "")
		rdmaConfig = kindFor("RDMAConfig", "")
		any        = DeviceTypes()
	)
	one := func(config ...resourceapi.DeviceClaimConfiguration) []resourceapi.DeviceClaimConfiguration {
		return config
	}
	tests := map[string]struct {
		asked   []Asked
		configs []resourceapi.DeviceClaimConfiguration
		want    []string
	}{
		"fits":                    {asked: []Asked{ask("a", WholeGPU)}, configs: one(wanted(driver, gpuConfig, "a"))},
		"fits all requests":       {asked: []Asked{ask("a", WholeGPU), ask("b", NIC)}, configs: one(wanted(driver, gpuConfig))},
		"fits half of a pair":     {asked: []Asked{ask("a", Pair)}, configs: one(wanted(driver, gpuConfig, "a"), wanted(driver, rdmaConfig, "a"))},
		"may fit":                 {asked: []Asked{ask("a", any...)}, configs: one(wanted(driver, migConfig, "a"))},
		"CONF-01 one alternative": {asked: []Asked{ask("a/big", WholeGPU), ask("a/small", MIGSlice)}, configs: one(wanted(driver, migConfig, "a"))},
		"names nothing there is":  {asked: []Asked{ask("a", WholeGPU)}, configs: one(wanted(driver, gpuConfig, "gone"))},

		"names the other type": {asked: []Asked{ask("a", MIGSlice)}, configs: one(wanted(driver, gpuConfig, "a")),
			want: []string{`p.config[0].requests[0]: Invalid value: "a": GPUConfig configures whole GPUs, and this request asks for none`}},
		"one of two": {asked: []Asked{ask("a", WholeGPU), ask("b", MIGSlice)}, configs: one(wanted(driver, gpuConfig, "a", "b")),
			want: []string{`p.config[0].requests[1]: Invalid value: "b": GPUConfig configures whole GPUs, and this request asks for none`}},
		"nothing of the type": {asked: []Asked{ask("a", MIGSlice), ask("b", NIC)}, configs: one(wanted(driver, gpuConfig)),
			want: []string{`p.config[0].opaque.parameters: Invalid value: "GPUConfig": GPUConfig configures whole GPUs, and this claim asks for none`}},
		"CONF-01 no alternative": {asked: []Asked{ask("a/x", WholeGPU), ask("a/y", Pair)}, configs: one(wanted(driver, migConfig, "a")),
			want: []string{`p.config[0].requests[0]: Invalid value: "a": MIGConfig configures MIG slices, and this request asks for none`}},
		"CONF-01 names the wrong alternative": {asked: []Asked{ask("a/x", WholeGPU), ask("a/y", MIGSlice)}, configs: one(wanted(driver, migConfig, "a/x")),
			want: []string{`p.config[0].requests[0]: Invalid value: "a/x": MIGConfig configures MIG slices, and this request asks for none`}},
		"other driver's devices": {asked: []Asked{{Name: "a", Others: true}}, configs: one(wanted(driver, gpuConfig, "a")),
			want: []string{`p.config[0].requests[0]: Invalid value: "a": GPUConfig configures whole GPUs, and this request asks for none`}},

		"WEBH-05 admin access": {asked: []Asked{{Name: "a", Types: []DeviceType{WholeGPU}, AdminAccess: true}}, configs: one(wanted(driver, gpuConfig, "a")),
			want: []string{`p.config[0].opaque.parameters: Forbidden: GPUConfig covers request "a", which has admin access and so must not change the device; name other requests in p.config[0].requests`}},
		"WEBH-05 beside":           {asked: []Asked{{Name: "a", Types: []DeviceType{WholeGPU}, AdminAccess: true}, ask("b", WholeGPU)}, configs: one(wanted(driver, gpuConfig, "b"))},
		"WEBH-05 reads only":       {asked: []Asked{{Name: "a", Types: []DeviceType{NIC}, AdminAccess: true}}, configs: one(wanted(driver, rdmaConfig, "a"))},
		"WEBH-05 may be a slice":   {asked: []Asked{{Name: "a", Types: []DeviceType{WholeGPU, MIGSlice}, AdminAccess: true}}, configs: one(wanted(driver, gpuConfig, "a"))},
		"WEBH-05 may be another's": {asked: []Asked{{Name: "a", Types: []DeviceType{WholeGPU}, Others: true, AdminAccess: true}}, configs: one(wanted(driver, gpuConfig, "a"))},

		"WEBH-01 other driver": {asked: []Asked{ask("a", WholeGPU)}, configs: one(wanted("other.example", `{"what":`, "a"))},
		"no opaque":            {asked: []Asked{ask("a", WholeGPU)}, configs: one(resourceapi.DeviceClaimConfiguration{})},
		"WEBH-02 everything at once": {asked: []Asked{ask("a", MIGSlice)},
			configs: one(wanted("other.example", `{`), wanted(driver, kindFor("GPUConfig", `,"computeMod":1,"x":2`)), wanted(driver, gpuConfig, "a"), wanted(driver, `[]`)),
			want: []string{
				`p.config[1].opaque.parameters.computeMod: Forbidden: unknown field of GPUConfig`,
				`p.config[1].opaque.parameters.x: Forbidden: unknown field of GPUConfig`,
				`p.config[2].requests[0]: Invalid value: "a": GPUConfig configures whole GPUs, and this request asks for none`,
				`p.config[3].opaque.parameters: Invalid value: want an object, not array`,
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			errs := ForSpec(resourceapi.DeviceClaim{Config: tc.configs}, tc.asked, driver, field.NewPath("p"))
			if diff := cmp.Diff(tc.want, messages(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForClass(t *testing.T) {
	config := func(raw string) resourceapi.DeviceClassSpec {
		c := resourceapi.DeviceClassConfiguration{}
		c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(raw)}}
		return resourceapi.DeviceClassSpec{Config: []resourceapi.DeviceClassConfiguration{{}, c}}
	}
	tests := map[string]struct {
		raw   string
		types []DeviceType
		want  []string
	}{
		"fits":      {raw: kindFor("MIGConfig", ""), types: []DeviceType{MIGSlice}},
		"fits some": {raw: kindFor("MIGConfig", ""), types: DeviceTypes()},
		"fits none": {raw: kindFor("MIGConfig", ""), types: []DeviceType{WholeGPU, Pair},
			want: []string{`spec.config[1].opaque.parameters: Invalid value: "MIGConfig": MIGConfig configures MIG slices, and the selectors of this class select none`}},
		"not ours": {raw: kindFor("RDMAConfig", ""),
			want: []string{`spec.config[1].opaque.parameters: Invalid value: "RDMAConfig": RDMAConfig configures NICs, and the selectors of this class select none`}},
		"WEBH-02 misspelt": {raw: kindFor("RDMAConfig", `,"ncl":true`), types: []DeviceType{NIC},
			want: []string{`spec.config[1].opaque.parameters.ncl: Forbidden: unknown field of RDMAConfig`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			errs := ForClass(config(tc.raw), tc.types, driver, field.NewPath("spec"))
			if diff := cmp.Diff(tc.want, messages(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpecRefusesOnlyWhatCannotWork: what is refused before a claim is allocated is
// refused on the node too, or applies to nothing there, whatever the scheduler
// allocates.
func TestSpecRefusesOnlyWhatCannotWork(t *testing.T) {
	devices := map[DeviceType]string{WholeGPU: gpu, MIGSlice: slice, NIC: theNIC, Pair: thePair}
	rapid.Check(t, func(t *rapid.T) {
		var asked []Asked
		var names []string
		var results []res
		for i := range rapid.IntRange(1, 3).Draw(t, "requests") {
			name := fmt.Sprintf("r%d", i)
			names = append(names, name)
			alternatives := rapid.IntRange(0, 2).Draw(t, "alternatives")
			first := len(asked)
			for k := range max(alternatives, 1) {
				a := Asked{Name: name, Others: rapid.Bool().Draw(t, "others")}
				if alternatives > 0 {
					a.Name = fmt.Sprintf("%s/s%d", name, k)
					names = append(names, a.Name)
				} else {
					a.AdminAccess = rapid.Bool().Draw(t, "admin")
				}
				for _, kind := range DeviceTypes() {
					if rapid.Bool().Draw(t, string(kind)) {
						a.Types = append(a.Types, kind)
					}
				}
				asked = append(asked, a)
			}
			// The scheduler takes one alternative, and any devices that it allows.
			taken := asked[rapid.IntRange(first, len(asked)-1).Draw(t, "taken")]
			for range rapid.IntRange(1, 2).Draw(t, "count") {
				var r res
				switch {
				case len(taken.Types) > 0 && (!taken.Others || rapid.Bool().Draw(t, "ours")):
					r = given(taken.Name, devices[rapid.SampledFrom(taken.Types).Draw(t, "type")])
				case taken.Others:
					r = of("other.example", given(taken.Name, gpu))
				default:
					continue
				}
				if taken.AdminAccess {
					r = admin(r)
				}
				results = append(results, r)
			}
		}
		kind := rapid.SampledFrom([]string{"GPUConfig", "MIGConfig", "RDMAConfig"}).Draw(t, "kind")
		var covered []string
		for _, name := range names {
			if rapid.Bool().Draw(t, "covers "+name) {
				covered = append(covered, name)
			}
		}
		raw := kindFor(kind, "")
		errs := ForSpec(resourceapi.DeviceClaim{Config: []resourceapi.DeviceClaimConfiguration{wanted(driver, raw, covered...)}}, asked, driver, nil)
		if len(errs) == 0 {
			return
		}
		configs, err := ForClaim(claim(results, opaque(claimed, driver, raw, covered...)), driver)
		if err != nil {
			return
		}
		// The node takes it. Then what the error is about got nothing of it.
		for i, r := range results {
			if configs.GPU[i] == nil && configs.MIG[i] == nil && configs.RDMA[i] == nil {
				continue
			}
			for _, e := range errs {
				request, named := e.BadValue.(string)
				if !named || !slices.Contains(covered, request) || covers([]string{request}, r.Request) {
					text, _ := json.Marshal(results)
					t.Fatalf("refused with %v, but the node configures device %d of %s", errs, i, text)
				}
			}
		}
	})
}
