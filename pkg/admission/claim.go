package admission

import (
	"encoding/json"
	stdslices "slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/pkg/params"
)

// Reviewer decides over objects of one driver. It is safe for concurrent use, and its
// decisions depend on their arguments only.
type Reviewer struct {
	driver string
	reader *reader
}

// NewReviewer makes the reviewer of a driver's objects.
func NewReviewer(driverName string) (*Reviewer, error) {
	r, err := newReader(driverName)
	if err != nil {
		return nil, err
	}
	return &Reviewer{driver: driverName, reader: r}, nil
}

// Classes are DeviceClasses by name. One that is nil does not exist; of one that is
// missing nothing is known.
type Classes map[string]*resourceapi.DeviceClass

// ClassNames are the classes that a claim's requests name, in their order.
func ClassNames(spec resourceapi.ResourceClaimSpec) []string {
	var out []string
	for _, r := range requests(spec.Devices, nil) {
		if !stdslices.Contains(out, r.class) {
			out = append(out, r.class)
		}
	}
	return out
}

// request is a request of a claim, or one of its alternatives.
type request struct {
	path *field.Path
	// name is "request" or "request/alternative"; parent is empty for the former.
	name, parent, class string
	selectors           []resourceapi.DeviceSelector
	all                 bool
	count               int64
	admin               bool
	// equal is the same for requests that ask for the same.
	equal string

	reading
	// known tells that its class is, and with it what it asks for.
	known bool
	// ours tells that it is about the driver's devices.
	ours bool
}

// requests are those of a claim; path is that of its field devices.
func requests(devices resourceapi.DeviceClaim, path *field.Path) []request {
	var out []request
	for i, r := range devices.Requests {
		at := path.Child("requests").Index(i)
		if e := r.Exactly; e != nil {
			out = append(out, request{
				path: at.Child("exactly"), name: r.Name, class: e.DeviceClassName, selectors: e.Selectors,
				all: e.AllocationMode == resourceapi.DeviceAllocationModeAll, count: max(e.Count, 1),
				admin: e.AdminAccess != nil && *e.AdminAccess, equal: fingerprint(e),
			})
		}
		for k, s := range r.FirstAvailable {
			out = append(out, request{
				path: at.Child("firstAvailable").Index(k), name: r.Name + "/" + s.Name, parent: r.Name, class: s.DeviceClassName, selectors: s.Selectors,
				all: s.AllocationMode == resourceapi.DeviceAllocationModeAll, count: max(s.Count, 1),
			})
		}
	}
	return out
}

// fingerprint is the same for requests that ask for the same.
func fingerprint(e *resourceapi.ExactDeviceRequest) string {
	raw, err := json.Marshal(e)
	if err != nil {
		return "" // it came as JSON, and equal to none is safe
	}
	return string(raw)
}

// Claim decides over a claim's spec at path: spec, or spec.spec in a template.
func (r *Reviewer) Claim(spec resourceapi.ResourceClaimSpec, classes Classes, path *field.Path) Decision {
	devices := path.Child("devices")
	all := requests(spec.Devices, devices)
	var d Decision
	var asked []params.Asked
	for i := range all {
		r.understand(&all[i], classes)
		asked = append(asked, params.Asked{Name: all[i].name, Types: all[i].types, Others: all[i].others, AdminAccess: all[i].admin})
	}
	d.Errors = params.ForSpec(spec.Devices, asked, r.driver, devices)
	for _, req := range all {
		if req.ours {
			d.request(req, classes)
		}
	}
	d.shape(all, spec.Devices.Constraints, devices)
	return d
}

// understand finds out what a request asks for.
func (r *Reviewer) understand(req *request, classes Classes) {
	class := classes[req.class]
	if class == nil {
		req.reading = anything()
		req.ours = strings.HasSuffix(req.class, "."+r.driver)
		return
	}
	req.known = true
	req.reading = r.reader.read(class.Spec.Selectors, req.selectors)
	req.ours = len(req.types) > 0 && (r.reader.mentions(class.Spec.Selectors) || r.reader.mentions(req.selectors))
}

// request warns of what one request alone may be unwise in.
func (d *Decision) request(req request, classes Classes) {
	if class, known := classes[req.class]; known && class == nil {
		d.warn(req.path.Child("deviceClassName"), "there is no DeviceClass %q; until there is, pods with this claim stay pending", req.class)
		return
	}
	for i := range req.selectors {
		for _, text := range req.warnings[i] {
			d.warn(req.path.Child("selectors").Index(i), "%s", text)
		}
	}
	if req.all {
		d.allocateAll(req)
	}
}

// allocateAll warns where not all devices that match can be had at once.
func (d *Decision) allocateAll(req request) {
	has := func(t params.DeviceType) bool { return stdslices.Contains(req.types, t) }
	path := req.path.Child("allocationMode")
	switch {
	case has(params.MIGSlice) && len(req.types) > 1, has(params.Pair) && (has(params.WholeGPU) || has(params.NIC)):
		d.warn(path, "All can never be met where devices of several types match, since a GPU and its parts cannot be had at once: select one type, or ask for a count")
	case has(params.MIGSlice):
		d.warn(path, "All asks for every MIG slice that could be made, and those of one GPU exclude each other: it is met only where no GPU offers more than one that matches; ask for a count")
	}
}

// Class decides over a DeviceClass.
func (r *Reviewer) Class(spec resourceapi.DeviceClassSpec) Decision {
	path := field.NewPath("spec")
	meaning := r.reader.read(nil, spec.Selectors)
	d := Decision{Errors: params.ForClass(spec, meaning.types, r.driver, path)}
	if !r.reader.mentions(spec.Selectors) {
		return d
	}
	for i := range spec.Selectors {
		for _, text := range meaning.warnings[i] {
			d.warn(path.Child("selectors").Index(i), "%s", text)
		}
	}
	return d
}
