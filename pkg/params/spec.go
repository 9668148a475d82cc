package params

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Asked is what is known of one request of a claim, or of one of its alternatives,
// before the scheduler has allocated it.
type Asked struct {
	// Name is the request's, "request/alternative" for an alternative.
	Name string
	// Types are those that the driver's devices may have that it is given; none if it
	// cannot be given any of them.
	Types []DeviceType
	// Others tells that it may be given devices of other drivers.
	Others bool
	// AdminAccess tells that its devices may be in use by other claims.
	AdminAccess bool
}

// ForSpec checks the configuration of a claim that is not allocated yet, as it stands
// in the claim's spec or in a template at path: spec.devices or spec.spec.devices. It
// finds what ForClaim would refuse whatever the scheduler allocates, and what could
// never apply to any device. The configuration of other drivers is not looked at.
func ForSpec(claim resourceapi.DeviceClaim, asked []Asked, driverName string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range claim.Config {
		if c.Opaque == nil || c.Opaque.Driver != driverName {
			continue
		}
		at := path.Child("config").Index(i)
		object, bad := Decode(c.Opaque.Parameters.Raw, at.Child("opaque", "parameters"))
		if len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		errs = append(errs, intended{kindOf(object), c, asked}.validate(at)...)
	}
	return errs
}

// ForClass checks the configuration of a DeviceClass whose selectors let it have
// devices of these types. One that applies to none of them is refused: who writes a
// class knows what it is for.
func ForClass(class resourceapi.DeviceClassSpec, types []DeviceType, driverName string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range class.Config {
		if c.Opaque == nil || c.Opaque.Driver != driverName {
			continue
		}
		at := path.Child("config").Index(i).Child("opaque", "parameters")
		object, bad := Decode(c.Opaque.Parameters.Raw, at)
		errs = append(errs, bad...)
		if len(bad) > 0 {
			continue
		}
		if k := kindOf(object); !k.fits(types) {
			errs = append(errs, k.refuse(at, k.name, "the selectors of this class select none"))
		}
	}
	return errs
}

// intended is one decoded configuration of a claim that is not allocated yet.
type intended struct {
	kind   namedKind
	config resourceapi.DeviceClaimConfiguration
	asked  []Asked
}

func (c intended) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parameters := path.Child("opaque", "parameters")
	if len(c.config.Requests) == 0 && !c.usefulFor(c.asked) {
		errs = append(errs, c.kind.refuse(parameters, c.kind.name, "this claim asks for none"))
	}
	for k, name := range c.config.Requests {
		covered := c.covered(name)
		if len(covered) > 0 && !c.usefulFor(covered) {
			errs = append(errs, c.kind.refuse(path.Child("requests").Index(k), name, "this request asks for none"))
		}
	}
	for _, a := range c.covered(c.config.Requests...) {
		if a.AdminAccess && !c.kind.admin && c.certainFor(a) {
			errs = append(errs, c.kind.adminAccess(parameters, a.Name, path))
			break
		}
	}
	return errs
}

// covered are the requests that these names stand for, all if there are none.
func (c intended) covered(names ...string) []Asked {
	return slices.DeleteFunc(slices.Clone(c.asked), func(a Asked) bool {
		return !covers(names, a.Name)
	})
}

// usefulFor tells whether the configuration may apply to a device of any of them.
func (c intended) usefulFor(asked []Asked) bool {
	return slices.ContainsFunc(asked, func(a Asked) bool { return c.kind.fits(a.Types) })
}

// certainFor tells whether it applies to every device that the request can be given.
func (c intended) certainFor(a Asked) bool {
	return !a.Others && len(a.Types) > 0 && !slices.ContainsFunc(a.Types, func(t DeviceType) bool {
		return !slices.Contains(c.kind.devices, t)
	})
}

// covers tells whether a configuration for these requests covers one of this name.
func covers(names []string, request string) bool {
	one := resourceapi.DeviceAllocationConfiguration{Requests: names}
	one.Opaque = &resourceapi.OpaqueDeviceConfiguration{}
	result := resourceapi.DeviceRequestAllocationResult{Request: request}
	return len(resourceclaim.ConfigForResult([]resourceapi.DeviceAllocationConfiguration{one}, result)) > 0
}

// namedKind is a kind under its name.
type namedKind struct {
	kind
	name string
}

func kindOf(object runtime.Object) namedKind {
	gvk := object.GetObjectKind().GroupVersionKind()
	return namedKind{kinds()[gvk], gvk.Kind}
}

// fits tells whether the kind is for devices of any of these types.
func (k kind) fits(types []DeviceType) bool {
	return slices.ContainsFunc(types, func(t DeviceType) bool { return slices.Contains(k.devices, t) })
}

// refuse says why a configuration of the kind is in vain.
func (k namedKind) refuse(path *field.Path, value, why string) *field.Error {
	return field.Invalid(path, value, fmt.Sprintf("%s configures %s, and %s", k.name, k.wants, why))
}

// adminAccess says why the kind is refused for a request.
func (k namedKind) adminAccess(path *field.Path, request string, config *field.Path) *field.Error {
	return field.Forbidden(path, fmt.Sprintf("%s covers request %q, which has admin access and so must not change the device; name other requests in %s",
		k.name, request, config.Child("requests")))
}
