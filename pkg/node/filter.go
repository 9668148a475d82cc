package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/filter"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// nicFilter decides which NICs are offered, by the expression that is configured. Only
// the publisher uses it.
type nicFilter struct {
	expression, driver, program string
	// asked are the devices that it was asked about last, encoded, and verdicts the
	// answer by their names.
	asked    []byte
	verdicts map[string]filter.Verdict
}

// check is why the filter cannot be used, nil without one.
func (f *nicFilter) check(ctx context.Context) error {
	if f.expression == "" {
		return nil
	}
	if _, err := filter.Ask(ctx, f.program, filter.Question{Expression: f.expression, Driver: f.driver}); err != nil {
		return fmt.Errorf("filter of NICs: %w", err)
	}
	return nil
}

// unwanted are the NICs that it leaves out, those included on which it fails; devices are
// as they would be published.
func (f *nicFilter) unwanted(ctx context.Context, nics []hardware.NIC, devices []resourceapi.Device) (map[hardware.PCIAddress]bool, []error) {
	var reasons []error
	if err := f.ask(ctx, devices); err != nil {
		reasons = append(reasons, fmt.Errorf("filter of NICs (what it has said before holds, and what it has not seen is left out): %w", err))
	}
	out := map[hardware.PCIAddress]bool{}
	for _, n := range nics {
		v := f.verdicts[n.DeviceName()]
		if !v.Matches {
			out[n.PCI] = true
		}
		if v.Failure != "" {
			reasons = append(reasons, fmt.Errorf("leave out NIC %s: %s", n, v.Failure))
		}
	}
	return out, reasons
}

// ask judges devices, unless it has judged exactly these.
func (f *nicFilter) ask(ctx context.Context, devices []resourceapi.Device) error {
	encoded, err := json.Marshal(devices)
	if err != nil {
		return fmt.Errorf("encode devices: %w", err)
	}
	if len(devices) == 0 || bytes.Equal(encoded, f.asked) {
		return nil
	}
	verdicts, err := filter.Ask(ctx, f.program, filter.Question{Expression: f.expression, Driver: f.driver, Devices: devices})
	if err != nil {
		return err
	}
	f.asked, f.verdicts = encoded, map[string]filter.Verdict{}
	var offered []string
	for i, v := range verdicts {
		f.verdicts[devices[i].Name] = v
		if v.Matches {
			offered = append(offered, devices[i].Name)
		}
	}
	klog.FromContext(ctx).V(2).Info("Filtered NICs", "found", len(devices), "offered", offered)
	return nil
}
