package journal

import (
	"fmt"
	"regexp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// State is how far a claim has come.
type State string

const (
	// Begun: the plan is being carried out, or its writer has crashed.
	Begun State = "Begun"
	// Finished: the claim was prepared and Prepared was replied.
	Finished State = "Finished"
)

// Record is what is known of one claim.
type Record struct {
	State State     `json:"state"`
	Plan  plan.Plan `json:"plan"`
	// Results are those of Plan.Steps, as many as were done and recorded. The step
	// after the last may have been done too, if its writer crashed.
	Results []plan.Result `json:"results,omitempty"`
	// Prepared is set in a finished record.
	Prepared []PreparedDevice `json:"prepared,omitempty"`
}

// PreparedDevice is what was replied to the kubelet for one device.
type PreparedDevice struct {
	// Requests are the names of the requests, "request" or "request/subrequest".
	Requests []string `json:"requests,omitempty"`
	Pool     string   `json:"pool"`
	// ShareID is as in plan.Device.
	ShareID string `json:"shareID,omitempty"`
	Device  string `json:"device"`
	// CDIDevices are fully qualified, "vendor/class=name".
	CDIDevices []string `json:"cdiDevices,omitempty"`
	// Attributes are those of the device's metadata, names as in a ResourceSlice.
	Attributes map[string]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
}

// Uses tells whether the claim has a device on a GPU, admin access included.
func (r Record) Uses(gpu hardware.PCIAddress) bool {
	return slices.Contains(r.Plan.Addresses(), gpu)
}

// check finds what no writer of this package would have written, so that whoever
// reads a record may index into it.
func (r Record) check(uid string) error {
	switch {
	case r.Plan.Claim.UID != uid:
		return fmt.Errorf("it is the record of claim %q", r.Plan.Claim.UID)
	case r.State != Begun && r.State != Finished:
		return fmt.Errorf("unknown state %q", r.State)
	case len(r.Results) > len(r.Plan.Steps):
		return fmt.Errorf("%d results of %d steps", len(r.Results), len(r.Plan.Steps))
	case r.State == Finished && len(r.Results) < len(r.Plan.Steps):
		return fmt.Errorf("finished with %d results of %d steps", len(r.Results), len(r.Plan.Steps))
	}
	if err := checkDevices(r.Plan); err != nil {
		return err
	}
	for i, s := range r.Plan.Steps {
		if s.Device < 0 || s.Device >= len(r.Plan.Devices) {
			return fmt.Errorf("step %d: no device %d", i, s.Device)
		}
	}
	return nil
}

func checkDevices(p plan.Plan) error {
	for i, d := range p.Devices {
		if d.GPU.PCI != "" || d.NIC == nil {
			if err := checkAddress(d.GPU.PCI); err != nil {
				return fmt.Errorf("device %d: %w", i, err)
			}
		}
		if d.NIC != nil {
			if err := checkAddress(d.NIC.PCI); err != nil {
				return fmt.Errorf("device %d: NIC: %w", i, err)
			}
		}
	}
	return nil
}

// uidPattern admits UUIDs and nothing that means something in a path.
var uidPattern = regexp.MustCompile(`^[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?$`)

func checkUID(uid string) error {
	if !uidPattern.MatchString(uid) {
		return fmt.Errorf("claim UID %.80q: %w", uid, ErrInvalidUID)
	}
	return nil
}

// checkAddress admits an address only in the one form that the index uses.
func checkAddress(addr hardware.PCIAddress) error {
	parsed, err := hardware.ParsePCIAddress(string(addr))
	if err != nil {
		return err
	}
	if parsed != addr {
		return fmt.Errorf("PCI address %q: want it written %q", addr, parsed)
	}
	return nil
}
