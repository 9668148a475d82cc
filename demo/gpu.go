package main

import (
	"context"
	"fmt"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

func wholeGPU(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "01-whole-gpu.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "whole-gpu")
	if err != nil {
		return err
	}
	return want(seen, 1, "type", "gpu")
}

func sharedClaim(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "02-shared-claim.yaml"); err != nil {
		return err
	}
	// That each container sees its own GPU only is checked by ready.
	seen, err := s.ready(ctx, "shared-claim")
	if err != nil {
		return err
	}
	if err := want(seen, 2, "type", "gpu"); err != nil {
		return err
	}
	if seen[0].GPU.UUID == seen[1].GPU.UUID || seen[0].Claim.UID != seen[1].Claim.UID {
		return fmt.Errorf("want two GPUs of one claim, got %s of claim %s and %s of claim %s",
			seen[0].GPU.UUID, seen[0].Claim.Name, seen[1].GPU.UUID, seen[1].Claim.Name)
	}
	return nil
}

// want checks the number of devices and that an attribute has the same value in
// all of them.
func want(seen []cluster.Seen, n int, attribute, value string) error {
	if len(seen) != n {
		return fmt.Errorf("want %d devices in the pod, got %d", n, len(seen))
	}
	for _, d := range seen {
		if got := d.Attribute(attribute); got != value {
			return fmt.Errorf("device %s: want %s %q, got %q", d.Device.Name, attribute, value, got)
		}
	}
	return nil
}
