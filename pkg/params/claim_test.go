package params

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

const (
	driver  = "cleave.dev"
	gpu     = "gpu-0000-3b-00-0"
	gpu2    = "gpu-0000-d8-00-0"
	slice   = "gpu-0000-3b-00-0-mig-1g-10gb-6"
	wide    = "gpu-10000-3b-00-0"
	claimed = resourceapi.AllocationConfigSourceClaim
	class   = resourceapi.AllocationConfigSourceClass
)

type (
	res = resourceapi.DeviceRequestAllocationResult
	cfg = resourceapi.DeviceAllocationConfiguration
)

func given(request, device string) res {
	return res{Request: request, Driver: driver, Pool: "node-1/gpu", Device: device}
}

func admin(r res) res {
	yes := true
	r.AdminAccess = &yes
	return r
}

func of(driver string, r res) res {
	r.Driver = driver
	return r
}

func mode(source resourceapi.AllocationConfigSource, mode v1alpha1.ComputeMode, requests ...string) cfg {
	raw, err := json.Marshal(gpuConfig(mode))
	if err != nil {
		panic(err)
	}
	return opaque(source, driver, string(raw), requests...)
}

func opaque(source resourceapi.AllocationConfigSource, driver, raw string, requests ...string) cfg {
	c := cfg{Source: source, Requests: requests}
	c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(raw)}}
	return c
}

func claim(results []res, configs ...cfg) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "training"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results, Config: configs},
		}},
	}
}

func TestForClaim(t *testing.T) {
	const d, x, p = "Default", "ExclusiveProcess", "Prohibited"
	tests := map[string]struct {
		results []res
		configs []cfg
		// want is the compute mode by result index, "" for an empty GPUConfig.
		want map[int]string
	}{
		"none":                          {[]res{given("a", gpu)}, nil, map[int]string{}},
		"every request":                 {[]res{given("a", gpu), given("b", gpu2)}, []cfg{mode(claimed, x)}, map[int]string{0: x, 1: x}},
		"one request":                   {[]res{given("a", gpu), given("b", gpu2)}, []cfg{mode(claimed, x, "b")}, map[int]string{1: x}},
		"two devices":                   {[]res{given("a", gpu), given("a", gpu2)}, []cfg{mode(claimed, x, "a")}, map[int]string{0: x, 1: x}},
		"later wins":                    {[]res{given("a", gpu)}, []cfg{mode(claimed, x), mode(claimed, p, "a")}, map[int]string{0: p}},
		"the later, not the narrower":   {[]res{given("a", gpu)}, []cfg{mode(claimed, p, "a"), mode(claimed, x)}, map[int]string{0: x}},
		"as a whole":                    {[]res{given("a", gpu)}, []cfg{mode(claimed, x), mode(claimed, "")}, map[int]string{0: ""}},
		"class":                         {[]res{given("a", gpu)}, []cfg{mode(class, x, "a")}, map[int]string{0: x}},
		"claim over class":              {[]res{given("a", gpu)}, []cfg{mode(class, x, "a"), mode(claimed, d)}, map[int]string{0: d}},
		"claim over class in any order": {[]res{given("a", gpu)}, []cfg{mode(claimed, d), mode(class, x, "a")}, map[int]string{0: d}},
		"wide PCI domain":               {[]res{given("a", wide)}, []cfg{mode(claimed, x)}, map[int]string{0: x}},

		"CONF-01 for the parent":        {[]res{given("a/sub", gpu), given("b", gpu2)}, []cfg{mode(claimed, x, "a")}, map[int]string{0: x}},
		"CONF-01 for the subrequest":    {[]res{given("a/sub", gpu)}, []cfg{mode(claimed, x, "a/sub")}, map[int]string{0: x}},
		"CONF-01 for a sibling":         {[]res{given("a/sub", gpu)}, []cfg{mode(claimed, x, "a/other")}, map[int]string{}},
		"CONF-01 parent then sub":       {[]res{given("a/sub", gpu)}, []cfg{mode(claimed, x, "a"), mode(claimed, p, "a/sub")}, map[int]string{0: p}},
		"CONF-01 sub then parent":       {[]res{given("a/sub", gpu)}, []cfg{mode(claimed, p, "a/sub"), mode(claimed, x, "a")}, map[int]string{0: x}},
		"CONF-01 class and claim":       {[]res{given("a/sub", gpu), given("b", gpu2)}, []cfg{mode(class, x, "a/sub"), mode(class, x, "b"), mode(claimed, p, "a")}, map[int]string{0: p, 1: x}},
		"CONF-01 name is a prefix":      {[]res{given("ab", gpu)}, []cfg{mode(claimed, x, "a")}, map[int]string{}},
		"CONF-01 fallback to MIG slice": {[]res{given("a/small", slice)}, []cfg{mode(claimed, x, "a")}, map[int]string{}},

		"GPU and slice in one request": {[]res{given("a", gpu2), given("a", slice)}, []cfg{mode(claimed, x, "a")}, map[int]string{0: x}},
		"slice beside GPU":             {[]res{given("a", slice), given("b", gpu2)}, []cfg{mode(claimed, x)}, map[int]string{1: x}},
		"class for slices is ignored":  {[]res{given("a", slice)}, []cfg{mode(class, x, "a")}, map[int]string{}},
		"class for admin is ignored":   {[]res{admin(given("a", gpu))}, []cfg{mode(class, x, "a")}, map[int]string{}},
		"admin beside, not covered":    {[]res{admin(given("a", gpu)), given("b", gpu2)}, []cfg{mode(claimed, x, "b")}, map[int]string{1: x}},
		"admin over a slice":           {[]res{admin(given("a", slice)), given("b", gpu2)}, []cfg{mode(claimed, x)}, map[int]string{1: x}},

		"WEBH-01 foreign configuration": {[]res{given("a", gpu)}, []cfg{opaque(claimed, "other.example", `{"what":`)}, map[int]string{}},
		"WEBH-01 foreign device":        {[]res{of("other.example", given("a", gpu))}, []cfg{mode(claimed, x, "a")}, map[int]string{}},
		"no opaque":                     {[]res{given("a", gpu)}, []cfg{{Source: claimed}}, map[int]string{}},
		"unknown device":                {[]res{given("a", "tpu-1"), given("b", gpu2)}, []cfg{mode(claimed, x)}, map[int]string{1: x}},
		"no results":                    {nil, []cfg{mode(claimed, x)}, map[int]string{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			configs, err := ForClaim(claim(tc.results, tc.configs...), driver)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int]string{}
			for i, c := range configs.GPU {
				got[i] = ""
				if c.ComputeMode != nil {
					got[i] = string(*c.ComputeMode)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForClaimRefuses(t *testing.T) {
	const x = "ExclusiveProcess"
	bad := func(field string, requests ...string) cfg {
		return opaque(claimed, driver, fmt.Sprintf(`{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig",%q:1}`, field), requests...)
	}
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		want  []string
	}{
		"not allocated": {&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "training"}},
			[]string{"team/training", "not allocated"}},
		"unknown field": {claim([]res{given("a", gpu)}, bad("computeMod")),
			[]string{"team/training", "status.allocation.devices.config[0].opaque.parameters.computeMod: Forbidden: unknown field"}},
		"WEBH-01 wrong kind": {claim([]res{given("a", gpu)}, opaque(claimed, driver, `{"apiVersion":"cleave.dev/v1alpha1","kind":"NICConfig"}`)),
			[]string{`config[0].opaque.parameters.kind: Unsupported value: "NICConfig"`}},
		"index among all": {claim([]res{given("a", gpu)}, opaque(claimed, "other.example", `{`), bad("b")),
			[]string{"config[1].opaque.parameters.b: "}},
		"every problem": {claim([]res{given("a", slice), admin(given("b", gpu2))}, bad("one"), mode(claimed, x, "a"), bad("two", "gone"), mode(claimed, x, "b")),
			[]string{"config[0].opaque.parameters.one: ", "config[1].requests[0]: ", "config[2].opaque.parameters.two: ", "config[3].opaque.parameters: "}},
		"a class's is strict too": {claim([]res{given("a", gpu)}, opaque(class, driver, `{}`)),
			[]string{"config[0].opaque.parameters.apiVersion: Required"}},
		"names a slice": {claim([]res{given("a", gpu2), given("b", slice)}, mode(claimed, x, "a", "b")),
			[]string{`config[0].requests[1]: Invalid value: "b": GPUConfig configures whole GPUs`}},
		"names a subrequest with a slice": {claim([]res{given("a/small", slice)}, mode(claimed, x, "a/small")),
			[]string{`config[0].requests[0]: Invalid value: "a/small"`}},
		"WEBH-05 names admin access": {claim([]res{admin(given("a", gpu))}, mode(claimed, x, "a")),
			[]string{`config[0].opaque.parameters: Forbidden: GPUConfig covers request "a", which has admin access`}},
		"WEBH-05 covers admin access": {claim([]res{given("a", gpu), admin(given("b", gpu2))}, mode(claimed, "")),
			[]string{`covers request "b"`, "status.allocation.devices.config[0].requests"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			configs, err := ForClaim(tc.claim, driver)
			if err == nil {
				t.Fatalf("no error, but %v", configs)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}
