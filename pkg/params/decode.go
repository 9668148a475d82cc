// Package params reads the opaque configuration of claims and classes: it decodes,
// validates and selects what applies to each allocated device. Whatever decides
// about such configuration asks this package, so that all give the same answer.
package params

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// kind is one row of the table of what can be configured.
type kind struct {
	decoder
	// devices are the types that it applies to, wants what people call them.
	devices []DeviceType
	wants   string
	// admin tells that it may cover a device with admin access, because it changes
	// nothing of it.
	admin bool
}

// decoder is how a kind is read.
type decoder struct {
	// object makes an empty one to decode into.
	object func() runtime.Object
	// validate checks what the types cannot say.
	validate func(obj runtime.Object, path *field.Path) field.ErrorList
}

// kinds is the table.
func kinds() map[schema.GroupVersionKind]kind {
	return map[schema.GroupVersionKind]kind{
		v1alpha1.GroupVersion().WithKind(v1alpha1.GPUConfigKind): {
			decoder: decode(validateGPUConfig), devices: []DeviceType{WholeGPU, Pair}, wants: "whole GPUs"},
		v1alpha1.GroupVersion().WithKind(v1alpha1.MIGConfigKind): {
			decoder: decode(validateMIGConfig), devices: []DeviceType{MIGSlice}, wants: "MIG slices"},
		v1alpha1.GroupVersion().WithKind(v1alpha1.RDMAConfigKind): {
			decoder: decode(validateRDMAConfig), devices: []DeviceType{NIC, Pair}, wants: "NICs", admin: true},
	}
}

// decode makes the decoder of the kind T from its validation.
func decode[T any, P interface {
	*T
	runtime.Object
}](validate func(P, *field.Path) field.ErrorList) decoder {
	return decoder{
		object: func() runtime.Object { return P(new(T)) },
		validate: func(obj runtime.Object, path *field.Path) field.ErrorList {
			return validate(obj.(P), path)
		},
	}
}

func validateGPUConfig(c *v1alpha1.GPUConfig, path *field.Path) field.ErrorList {
	if c.ComputeMode != nil && !slices.Contains(v1alpha1.ComputeModes(), *c.ComputeMode) {
		return field.ErrorList{field.NotSupported(path.Child("computeMode"), short(string(*c.ComputeMode)), v1alpha1.ComputeModes())}
	}
	return nil
}

// validateMIGConfig checks what holds for every GPU; whether the compute instances
// fit into the slice that was allocated is for the plan to say.
func validateMIGConfig(c *v1alpha1.MIGConfig, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for i, ci := range c.ComputeInstances {
		path := path.Child("computeInstances").Index(i)
		if !slices.Contains(v1alpha1.ComputeSlices(), ci.Slices) {
			errs = append(errs, field.Invalid(path.Child("slices"), ci.Slices, "want 1, 2, 3, 4, 6, 7 or 8 compute slices"))
		}
		count := ptr.Deref(ci.Count, 1)
		if count < 1 || count > v1alpha1.MaxComputeInstances {
			errs = append(errs, field.Invalid(path.Child("count"), count, fmt.Sprintf("want 1 to %d", v1alpha1.MaxComputeInstances)))
			continue
		}
		total += int(count)
	}
	if total > v1alpha1.MaxComputeInstances {
		errs = append(errs, field.TooMany(path.Child("computeInstances"), total, v1alpha1.MaxComputeInstances))
	}
	return errs
}

// validateRDMAConfig: all that there is can be combined.
func validateRDMAConfig(*v1alpha1.RDMAConfig, *field.Path) field.ErrorList { return nil }

// Decode reads the JSON that a user wrote as opaque parameters at path. It is
// strict: unknown, misspelt and duplicate fields are errors. The object is one of
// package v1alpha1's, nil if there is any error.
func Decode(raw []byte, path *field.Path) (runtime.Object, field.ErrorList) {
	meta, err := typeOf(raw, path)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	k, err := lookup(meta, path)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	obj := k.object()
	strict, decodeErr := kjson.UnmarshalStrict(raw, obj)
	if decodeErr != nil {
		return nil, field.ErrorList{mismatch(decodeErr, path)}
	}
	var errs field.ErrorList
	for _, e := range strict {
		errs = append(errs, strictError(e, meta.Kind, path))
	}
	errs = append(errs, k.validate(obj, path)...)
	if len(errs) > 0 {
		return nil, errs
	}
	return obj, nil
}

// typeOf reads apiVersion and kind.
func typeOf(raw []byte, path *field.Path) (metav1.TypeMeta, *field.Error) {
	var meta *metav1.TypeMeta
	if len(raw) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
			return metav1.TypeMeta{}, mismatch(err, path)
		}
	}
	switch {
	case meta == nil: // nothing, or null
		return metav1.TypeMeta{}, field.Required(path, fmt.Sprintf("want an object with apiVersion %s and a kind", v1alpha1.GroupVersion()))
	case meta.APIVersion == "":
		return metav1.TypeMeta{}, field.Required(path.Child("apiVersion"), fmt.Sprintf("want %s", v1alpha1.GroupVersion()))
	case meta.Kind == "":
		return metav1.TypeMeta{}, field.Required(path.Child("kind"), fmt.Sprintf("%s, %s or %s", v1alpha1.GPUConfigKind, v1alpha1.MIGConfigKind, v1alpha1.RDMAConfigKind))
	}
	return *meta, nil
}

// lookup finds the row, or tells which half of the type is wrong and what exists.
func lookup(meta metav1.TypeMeta, path *field.Path) (kind, *field.Error) {
	var versions, names []string
	for gvk, k := range kinds() {
		version := gvk.GroupVersion().String()
		versions = append(versions, version)
		if version != meta.APIVersion {
			continue
		}
		if gvk.Kind == meta.Kind {
			return k, nil
		}
		names = append(names, gvk.Kind)
	}
	slices.Sort(versions)
	slices.Sort(names)
	if len(names) == 0 {
		return kind{}, field.NotSupported(path.Child("apiVersion"), short(meta.APIVersion), slices.Compact(versions))
	}
	return kind{}, field.NotSupported(path.Child("kind"), short(meta.Kind), names)
}

// mismatch tells where JSON is not JSON, or has a value of the wrong type.
func mismatch(err error, path *field.Path) *field.Error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("not valid JSON: %v", err))
	}
	if wrong.Field != "" {
		path = path.Child(wrong.Field)
	}
	return field.TypeInvalid(path, field.OmitValueType{}, fmt.Sprintf("want %s, not %s", inJSON(wrong.Type), short(wrong.Value)))
}

// inJSON is what a Go type is called in JSON.
func inJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return inJSON(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	default:
		return "a number"
	}
}

// strictError names the field that strict decoding objects to.
func strictError(err error, kind string, path *field.Path) *field.Error {
	var at kjson.FieldError
	if !errors.As(err, &at) {
		return field.Invalid(path, field.OmitValueType{}, err.Error())
	}
	path = path.Child(short(at.FieldPath()))
	if strings.HasPrefix(err.Error(), "duplicate") {
		return field.Forbidden(path, "the field is given twice")
	}
	return field.Forbidden(path, "unknown field of "+kind)
}

// short keeps what a user wrote from filling an Event.
func short(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
