package params

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// Configs is what applies to a claim's devices, by index in
// status.allocation.devices.results. A device without configuration is left out.
// The objects may be shared between devices and are not to be changed.
type Configs struct {
	// GPU is for whole GPUs, MIG for MIG slices, RDMA for NICs. A pair of a GPU and a
	// NIC can have both GPU and RDMA.
	GPU  map[int]*v1alpha1.GPUConfig
	MIG  map[int]*v1alpha1.MIGConfig
	RDMA map[int]*v1alpha1.RDMAConfig
}

// ForClaim finds the configuration of every device that an allocated claim was
// given of the driver. The error has every problem with its field path; the
// configuration of other drivers is not looked at.
//
// Of the configurations of a kind that cover a device the last one counts, as a
// whole; those of the claim come after those of a DeviceClass. One for a request
// covers its subrequests, and one for no request in particular all of them. In each
// it applies to the devices of its type only: GPUConfig to whole GPUs, MIGConfig to
// MIG slices, RDMAConfig to NICs; a pair of a GPU and a NIC is both. One in the claim
// is refused if it names a request that was given only devices of another type, or
// if it would change a device with admin access. From a DeviceClass, which the
// claim's author has not written, it is passed over in both cases.
func ForClaim(claim *resourceapi.ResourceClaim, driverName string) (Configs, error) {
	if claim.Status.Allocation == nil {
		return Configs{}, fmt.Errorf("read the configuration of claim %s/%s: it is not allocated", claim.Namespace, claim.Name)
	}
	s := selection{driver: driverName, devices: claim.Status.Allocation.Devices}
	entries, errs := s.decode()
	for _, e := range entries {
		errs = append(errs, s.validate(e)...)
	}
	if err := errs.ToAggregate(); err != nil {
		return Configs{}, fmt.Errorf("read the configuration of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return s.apply(entries), nil
}

// selection works on one claim's allocation.
type selection struct {
	driver  string
	devices resourceapi.DeviceAllocationResult
}

// entry is one decoded configuration.
type entry struct {
	resourceapi.DeviceAllocationConfiguration
	object runtime.Object
	kind   namedKind
	path   *field.Path
}

func (e entry) fromClass() bool { return e.Source == resourceapi.AllocationConfigSourceClass }

func (e entry) covers(result resourceapi.DeviceRequestAllocationResult) bool {
	return covers(e.Requests, result.Request)
}

// decode reads the configurations that are the driver's, those of classes first.
func (s selection) decode() ([]entry, field.ErrorList) {
	var class, rest []entry
	var errs field.ErrorList
	for i, c := range s.devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != s.driver {
			continue
		}
		path := field.NewPath("status", "allocation", "devices", "config").Index(i)
		object, bad := Decode(c.Opaque.Parameters.Raw, path.Child("opaque", "parameters"))
		errs = append(errs, bad...)
		if len(bad) > 0 {
			continue
		}
		e := entry{DeviceAllocationConfiguration: c, object: object, kind: kindOf(object), path: path}
		if e.fromClass() {
			class = append(class, e)
		} else {
			rest = append(rest, e)
		}
	}
	return slices.Concat(class, rest), errs
}

// apply gives each device the last configuration that covers it.
func (s selection) apply(entries []entry) Configs {
	configs := Configs{GPU: map[int]*v1alpha1.GPUConfig{}, MIG: map[int]*v1alpha1.MIGConfig{}, RDMA: map[int]*v1alpha1.RDMAConfig{}}
	for _, e := range entries {
		for i, r := range s.devices.Results {
			if !e.covers(r) || !s.appliesTo(e, r) || e.forbidden(r) {
				continue
			}
			switch cfg := e.object.(type) {
			case *v1alpha1.GPUConfig:
				configs.GPU[i] = cfg
			case *v1alpha1.MIGConfig:
				configs.MIG[i] = cfg
			case *v1alpha1.RDMAConfig:
				configs.RDMA[i] = cfg
			}
		}
	}
	return configs
}

// validate refuses what the claim's author asks for in vain, or may not ask for.
func (s selection) validate(e entry) field.ErrorList {
	if e.fromClass() {
		return nil
	}
	var errs field.ErrorList
	parameters := e.path.Child("opaque", "parameters")
	if len(e.Requests) == 0 && s.inVainForAll(e) {
		errs = append(errs, e.kind.refuse(parameters, e.kind.name, "this claim was given none"))
	}
	for k, request := range e.Requests {
		if s.inVain(e, request) {
			errs = append(errs, e.kind.refuse(e.path.Child("requests").Index(k), request, "this request was given none"))
		}
	}
	for _, r := range s.devices.Results {
		if e.covers(r) && s.appliesTo(e, r) && e.forbidden(r) {
			errs = append(errs, e.kind.adminAccess(parameters, r.Request, e.path))
			break
		}
	}
	return errs
}

// inVainForAll tells whether a configuration for all requests applies to nothing. The
// scheduler leaves requests out where they name all of a claim's. With alternatives
// another one than was meant may have been taken.
func (s selection) inVainForAll(e entry) bool {
	given := false
	for _, r := range s.devices.Results {
		if r.Driver != s.driver {
			continue
		}
		if s.appliesTo(e, r) || strings.Contains(r.Request, "/") {
			return false
		}
		given = true
	}
	return given
}

// inVain tells whether a request was given devices of the driver, but none of the
// configuration's type. A parent request has no devices under its own name, so a
// configuration for it may well cover an alternative of the other type.
func (s selection) inVain(e entry, request string) bool {
	given := false
	for _, r := range s.devices.Results {
		if r.Driver == s.driver && r.Request == request {
			if s.appliesTo(e, r) {
				return false
			}
			given = true
		}
	}
	return given
}

// appliesTo tells whether a device is of the type that the configuration is for.
func (s selection) appliesTo(e entry, r resourceapi.DeviceRequestAllocationResult) bool {
	return r.Driver == s.driver && slices.Contains(e.kind.devices, typeOfDevice(r.Device))
}

// forbidden tells whether the configuration must not cover the device.
func (e entry) forbidden(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess && !e.kind.admin
}
