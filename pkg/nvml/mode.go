package nvml

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// MIGMode is the current and the pending mode.
func (d *Driver) MIGMode(ctx context.Context, gpu hardware.GPUID) (current, pending bool, err error) {
	err = d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) (err error) {
		current, pending, err = migMode(dev, gpu)
		return err
	})
	return current, pending, err
}

// SetMIGMode switches MIG mode and reads it back. It wraps
// hardware.ErrResetRequired if the change only pends, which stays so, and
// hardware.ErrInUse if somebody holds the GPU.
//
// The GPU's minor may be another one afterwards (nvml.h, nvmlDeviceSetMigMode).
func (d *Driver) SetMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error {
	return d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) error {
		mode := nvml.DEVICE_MIG_DISABLE
		if enabled {
			mode = nvml.DEVICE_MIG_ENABLE
		}
		activation, ret := dev.SetMigMode(mode)
		if err := failure("nvmlDeviceSetMigMode", gpu.String(), ret); err != nil {
			return err
		}
		if err := failure("nvmlDeviceSetMigMode (activation)", gpu.String(), activation); err != nil {
			return err
		}
		// Activating may have unbound the device: its handle is not valid any more.
		dev, err := s.device(gpu)
		if err != nil {
			return err
		}
		current, pending, err := migMode(dev, gpu)
		if err == nil && current != enabled {
			err = fmt.Errorf("set MIG mode of %s to %t: NVML reports success but current is %t and pending %t: %w",
				gpu, enabled, current, pending, hardware.ErrResetRequired)
		}
		return err
	})
}

func migMode(dev nvml.Device, gpu hardware.GPUID) (current, pending bool, err error) {
	c, p, ret := dev.GetMigMode()
	if err := failure("nvmlDeviceGetMigMode", gpu.String(), ret); err != nil {
		return false, false, err
	}
	return c == nvml.DEVICE_MIG_ENABLE, p == nvml.DEVICE_MIG_ENABLE, nil
}

// onMIG is onGPU for calls that a library may not have.
func (d *Driver) onMIG(ctx context.Context, gpu hardware.GPUID, op func(*session, nvml.Device) error) error {
	return d.onGPU(ctx, gpu, func(s *session, dev nvml.Device) error {
		if s.noMIG != "" {
			return fmt.Errorf("use MIG on %s: %w: %s", gpu, hardware.ErrNotSupported, s.noMIG)
		}
		return op(s, dev)
	})
}
