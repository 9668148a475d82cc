//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// residue lists all that claims have left on a node: CDI files, the driver's own
// and those of the device metadata, records, indices, metadata, and GPU instances.
// It is empty on a node without claims.
func (e *env) residue(ctx context.Context, server string) ([]string, error) {
	out, err := e.shell(ctx, server, fmt.Sprintf(`
		find %[1]s -name 'cleave.dev*' -type f
		for d in claims held dra-device-metadata; do
			if [ -d %[2]s/$d ]; then find %[2]s/$d ! -type d; fi
		done`, cdiDir, pluginDir))
	if err != nil {
		return nil, err
	}
	left := strings.Fields(out)
	state, err := e.hardware(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, g := range state.GPUs {
		for _, i := range g.Instances {
			left = append(left, fmt.Sprintf("GPU instance %d (%s at %d) on %s", i.ID, i.Profile, i.Placement.Start, g.PCI))
		}
		if g.ComputeMode != 0 {
			left = append(left, fmt.Sprintf("compute mode %d on %s", g.ComputeMode, g.PCI))
		}
	}
	return left, nil
}

// waitClean waits until no node has anything left; it says what is, or nothing.
func (e *env) waitClean(ctx context.Context) string {
	err := try(ctx, cleanTimeout, func(ctx context.Context) error {
		var errs []error
		for _, server := range e.servers() {
			left, err := e.residue(ctx, server)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("on %s:\n  %s", server, strings.Join(left, "\n  "))
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
