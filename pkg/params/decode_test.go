package params

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

func gpuConfig(mode v1alpha1.ComputeMode) *v1alpha1.GPUConfig {
	c := &v1alpha1.GPUConfig{TypeMeta: metav1.TypeMeta{APIVersion: "cleave.dev/v1alpha1", Kind: "GPUConfig"}}
	if mode != "" {
		c.ComputeMode = &mode
	}
	return c
}

func TestDecode(t *testing.T) {
	const head = `{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig"`
	tests := map[string]struct {
		raw  string
		want runtime.Object
		errs []string
	}{
		"no setting":  {raw: head + `}`, want: gpuConfig("")},
		"null":        {raw: head + `,"computeMode":null}`, want: gpuConfig("")},
		"default":     {raw: head + `,"computeMode":"Default"}`, want: gpuConfig("Default")},
		"exclusive":   {raw: head + `,"computeMode":"ExclusiveProcess"}`, want: gpuConfig("ExclusiveProcess")},
		"prohibited":  {raw: head + `,"computeMode":"Prohibited"}`, want: gpuConfig("Prohibited")},
		"white space": {raw: " \n" + head + "\t}\n", want: gpuConfig("")},

		"WEBH-02 misspelt field": {raw: head + `,"computeMod":"Default"}`,
			errs: []string{`p.computeMod: Forbidden: unknown field of GPUConfig`}},
		"wrong case": {raw: head + `,"computemode":"Default"}`,
			errs: []string{`p.computemode: Forbidden: unknown field of GPUConfig`}},
		"duplicate field": {raw: head + `,"computeMode":"Default","computeMode":"Default"}`,
			errs: []string{`p.computeMode: Forbidden: the field is given twice`}},
		"metadata": {raw: head + `,"metadata":{"name":"x"}}`,
			errs: []string{`p.metadata: Forbidden: unknown field of GPUConfig`}},
		"all errors at once": {raw: head + `,"a":1,"b":{"c":2},"computeMode":"Thread"}`, errs: []string{
			`p.a: Forbidden: unknown field of GPUConfig`,
			`p.b: Forbidden: unknown field of GPUConfig`,
			`p.computeMode: Unsupported value: "Thread": supported values: "Default", "ExclusiveProcess", "Prohibited"`}},
		"wrong value": {raw: head + `,"computeMode":"exclusiveProcess"}`,
			errs: []string{`p.computeMode: Unsupported value: "exclusiveProcess": supported values: "Default", "ExclusiveProcess", "Prohibited"`}},
		"empty value": {raw: head + `,"computeMode":""}`,
			errs: []string{`p.computeMode: Unsupported value: "": supported values: "Default", "ExclusiveProcess", "Prohibited"`}},
		"value of wrong type": {raw: head + `,"computeMode":3}`,
			errs: []string{`p.computeMode: Invalid value: want a string, not number`}},
		"value is an object": {raw: head + `,"computeMode":{}}`,
			errs: []string{`p.computeMode: Invalid value: want a string, not object`}},

		"wrong kind": {raw: `{"apiVersion":"cleave.dev/v1alpha1","kind":"GpuConfig"}`,
			errs: []string{`p.kind: Unsupported value: "GpuConfig": supported values: "GPUConfig", "MIGConfig", "RDMAConfig"`}},
		"wrong version": {raw: `{"apiVersion":"cleave.dev/v1","kind":"GPUConfig"}`,
			errs: []string{`p.apiVersion: Unsupported value: "cleave.dev/v1": supported values: "cleave.dev/v1alpha1"`}},
		"wrong group": {raw: `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig"}`,
			errs: []string{`p.apiVersion: Unsupported value: "resource.nvidia.com/v1beta1": supported values: "cleave.dev/v1alpha1"`}},
		"odd version": {raw: `{"apiVersion":"a/b/c","kind":"GPUConfig"}`,
			errs: []string{`p.apiVersion: Unsupported value: "a/b/c": supported values: "cleave.dev/v1alpha1"`}},
		"no version": {raw: `{"kind":"GPUConfig"}`, errs: []string{`p.apiVersion: Required value: want cleave.dev/v1alpha1`}},
		"no kind": {raw: `{"apiVersion":"cleave.dev/v1alpha1"}`,
			errs: []string{`p.kind: Required value: GPUConfig, MIGConfig or RDMAConfig`}},
		"kind is a number": {raw: `{"apiVersion":"cleave.dev/v1alpha1","kind":1}`,
			errs: []string{`p.kind: Invalid value: want a string, not number`}},

		"empty":        {raw: ``, errs: []string{`p: Required value: want an object with apiVersion cleave.dev/v1alpha1 and a kind`}},
		"null object":  {raw: `null`, errs: []string{`p: Required value: want an object with apiVersion cleave.dev/v1alpha1 and a kind`}},
		"empty object": {raw: `{}`, errs: []string{`p.apiVersion: Required value: want cleave.dev/v1alpha1`}},
		"array":        {raw: `[` + head + `}]`, errs: []string{`p: Invalid value: want an object, not array`}},
		"string":       {raw: `"GPUConfig"`, errs: []string{`p: Invalid value: want an object, not string`}},
		"cut":          {raw: head, errs: []string{`p: Invalid value: not valid JSON: unexpected end of JSON input`}},
		"two objects": {raw: head + `}{}`,
			errs: []string{`p: Invalid value: not valid JSON: invalid character '{' after top-level value`}},
		"YAML": {raw: "apiVersion: cleave.dev/v1alpha1",
			errs: []string{`p: Invalid value: not valid JSON: invalid character 'a' looking for beginning of value`}},
		"10 KiB of one value": {raw: head + `,"computeMode":"` + strings.Repeat("x", 10<<10) + `"}`,
			errs: []string{`p.computeMode: Unsupported value: "` + strings.Repeat("x", 80) + `...": supported values: "Default", "ExclusiveProcess", "Prohibited"`}},
		"10 KiB of one name": {raw: head + `,"` + strings.Repeat("x", 10<<10) + `":1}`,
			errs: []string{`p.` + strings.Repeat("x", 80) + `...: Forbidden: unknown field of GPUConfig`}},
		"10 KiB of depth": {raw: strings.Repeat("[", 10<<10),
			errs: []string{`p: Invalid value: not valid JSON: invalid character '[' exceeded max depth`}},
		"10 KiB of zeros": {raw: strings.Repeat("\x00", 10<<10),
			errs: []string{`p: Invalid value: not valid JSON: invalid character '\x00' looking for beginning of value`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, errs := Decode([]byte(tc.raw), field.NewPath("p"))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.errs, messages(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func messages(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig","computeMode":"Default"}`))
	f.Add([]byte(`{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig","x":1,"x":2}`))
	f.Add([]byte(`{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig","computeMode":[]}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		obj, errs := Decode(raw, field.NewPath("p"))
		if (obj == nil) != (len(errs) > 0) {
			t.Fatalf("object %v with errors %v", obj, errs)
		}
		for _, err := range errs {
			if !strings.HasPrefix(err.Field, "p") || len(err.Error()) > 1000 {
				t.Errorf("error that does not help: %v", err)
			}
		}
		if obj == nil {
			return
		}
		stored, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		again, errs := Decode(stored, field.NewPath("p"))
		if diff := cmp.Diff(obj, again); len(errs) > 0 || diff != "" {
			t.Errorf("after a round trip: errors %v (-want +got):\n%s", errs, diff)
		}
	})
}
