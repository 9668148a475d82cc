package params

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

const migHead = `{"apiVersion":"cleave.dev/v1alpha1","kind":"MIGConfig"`

func TestDecodeMIGConfig(t *testing.T) {
	tests := map[string]struct {
		raw  string
		want []v1alpha1.ComputeInstances
		errs []string
	}{
		"nothing":       {raw: `}`},
		"empty list":    {raw: `,"computeInstances":[]}`, want: []v1alpha1.ComputeInstances{}},
		"one":           {raw: `,"computeInstances":[{"slices":2}]}`, want: []v1alpha1.ComputeInstances{{Slices: 2}}},
		"three of one":  {raw: `,"computeInstances":[{"slices":1,"count":3}]}`, want: []v1alpha1.ComputeInstances{{Slices: 1, Count: ptr.To[int32](3)}}},
		"several sizes": {raw: `,"computeInstances":[{"slices":1},{"slices":2,"count":2}]}`, want: []v1alpha1.ComputeInstances{{Slices: 1}, {Slices: 2, Count: ptr.To[int32](2)}}},

		"no slices": {raw: `,"computeInstances":[{"count":2}]}`,
			errs: []string{`p.computeInstances[0].slices: Invalid value: 0: want 1, 2, 3, 4, 6, 7 or 8 compute slices`}},
		"too many slices": {raw: `,"computeInstances":[{"slices":9}]}`,
			errs: []string{`p.computeInstances[0].slices: Invalid value: 9: want 1, 2, 3, 4, 6, 7 or 8 compute slices`}},
		"negative": {raw: `,"computeInstances":[{"slices":1},{"slices":-1,"count":-1}]}`, errs: []string{
			`p.computeInstances[1].slices: Invalid value: -1: want 1, 2, 3, 4, 6, 7 or 8 compute slices`,
			`p.computeInstances[1].count: Invalid value: -1: want 1 to 8`}},
		"too many": {raw: `,"computeInstances":[{"slices":1,"count":8},{"slices":1}]}`,
			errs: []string{`p.computeInstances: Too many: 9: must have at most 8 items`}},
		"beyond any integer": {raw: `,"computeInstances":[{"slices":1,"count":2147483647},{"slices":1,"count":2147483647}]}`, errs: []string{
			`p.computeInstances[0].count: Invalid value: 2147483647: want 1 to 8`,
			`p.computeInstances[1].count: Invalid value: 2147483647: want 1 to 8`}},
		"WEBH-02 misspelt": {raw: `,"computeInstances":[{"slice":1,"slices":1}]}`,
			errs: []string{`p.computeInstances[0].slice: Forbidden: unknown field of MIGConfig`}},
		"wrong type": {raw: `,"computeInstances":{"slices":1}}`,
			errs: []string{`p.computeInstances: Invalid value: want an array, not object`}},
		"setting of another kind": {raw: `,"computeMode":"Default"}`,
			errs: []string{`p.computeMode: Forbidden: unknown field of MIGConfig`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, errs := Decode([]byte(migHead+tc.raw), field.NewPath("p"))
			if diff := cmp.Diff(tc.errs, messages(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(tc.errs) > 0 {
				return
			}
			want := &v1alpha1.MIGConfig{TypeMeta: metav1.TypeMeta{APIVersion: "cleave.dev/v1alpha1", Kind: "MIGConfig"}, ComputeInstances: tc.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForClaimMIGConfig(t *testing.T) {
	const small = "gpu-0000-d8-00-0-mig-3g-40gb-4"
	two := func(requests ...string) cfg {
		return opaque(claimed, driver, migHead+`,"computeInstances":[{"slices":2}]}`, requests...)
	}
	tests := map[string]struct {
		results []res
		configs []cfg
		want    []int  // results that it applies to
		refused string // part of the error
	}{
		"slice":                    {results: []res{given("a", slice)}, configs: []cfg{two()}, want: []int{0}},
		"two slices":               {results: []res{given("a", slice), given("a", small)}, configs: []cfg{two("a")}, want: []int{0, 1}},
		"slice beside a GPU":       {results: []res{given("a", slice), given("b", gpu2)}, configs: []cfg{two()}, want: []int{0}},
		"CONF-01 for the parent":   {results: []res{given("a/small", slice)}, configs: []cfg{two("a")}, want: []int{0}},
		"CONF-01 GPU after all":    {results: []res{given("a/big", gpu)}, configs: []cfg{two("a")}},
		"with the other kind":      {results: []res{given("a", slice), given("b", gpu2)}, configs: []cfg{mode(claimed, "Default"), two()}, want: []int{0}},
		"all requests, only a GPU": {results: []res{given("a", gpu)}, configs: []cfg{two()}, refused: "MIGConfig configures MIG slices, and this claim was given none"},
		"names a GPU":              {results: []res{given("a", gpu)}, configs: []cfg{two("a")}, refused: "MIGConfig configures MIG slices, and this request was given none"},
		"WEBH-05 admin access":     {results: []res{admin(given("a", slice))}, configs: []cfg{two("a")}, refused: `MIGConfig covers request "a", which has admin access`},
		"from a class, for no one": {results: []res{given("a", gpu)}, configs: []cfg{opaque(class, driver, migHead+`}`, "a")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			configs, err := ForClaim(claim(tc.results, tc.configs...), driver)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got %v, want an error with %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for i := range tc.results {
				if configs.MIG[i] != nil {
					got = append(got, i)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("applies to (-want +got):\n%s", diff)
			}
		})
	}
}
