package nvml

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// onGPU runs op on the GPU's handle, looked up anew.
func (d *Driver) onGPU(ctx context.Context, gpu hardware.GPUID, op func(*session, nvml.Device) error) error {
	return d.do(ctx, func(s *session) error {
		dev, err := s.device(gpu)
		if err != nil {
			return err
		}
		return op(s, dev)
	})
}

// device finds the GPU by its address and makes sure that it is the one meant.
func (s *session) device(gpu hardware.GPUID) (nvml.Device, error) {
	dev, ret := s.lib.DeviceGetHandleByPciBusId(string(gpu.PCI))
	if err := failure("nvmlDeviceGetHandleByPciBusId", gpu.String(), ret); err != nil {
		return nil, err
	}
	uuid, ret := dev.GetUUID()
	if err := failure("nvmlDeviceGetUUID", gpu.String(), ret); err != nil {
		return nil, err
	}
	if uuid != gpu.UUID {
		return nil, fmt.Errorf("check GPU %s: found %s: %w", gpu, uuid, hardware.ErrReplaced)
	}
	return dev, nil
}

// computeModes pairs the modes with NVML's values.
var computeModes = []struct {
	mode hardware.ComputeMode
	nvml nvml.ComputeMode
}{
	{hardware.ComputeModeDefault, nvml.COMPUTEMODE_DEFAULT},
	{hardware.ComputeModeProhibited, nvml.COMPUTEMODE_PROHIBITED},
	{hardware.ComputeModeExclusiveProcess, nvml.COMPUTEMODE_EXCLUSIVE_PROCESS},
}

// ComputeMode reads who may use the GPU at the same time.
func (d *Driver) ComputeMode(ctx context.Context, gpu hardware.GPUID) (hardware.ComputeMode, error) {
	var mode hardware.ComputeMode
	err := d.onGPU(ctx, gpu, func(s *session, dev nvml.Device) (err error) {
		mode, err = s.computeMode(dev, gpu)
		return err
	})
	return mode, err
}

func (s *session) computeMode(dev nvml.Device, gpu hardware.GPUID) (hardware.ComputeMode, error) {
	if !s.has("nvmlDeviceGetComputeMode") {
		return "", failure("nvmlDeviceGetComputeMode", gpu.String(), nvml.ERROR_FUNCTION_NOT_FOUND)
	}
	raw, ret := dev.GetComputeMode()
	if err := failure("nvmlDeviceGetComputeMode", gpu.String(), ret); err != nil {
		return "", err
	}
	for _, m := range computeModes {
		if m.nvml == raw {
			return m.mode, nil
		}
	}
	return "", fmt.Errorf("read compute mode of %s: unknown value %d", gpu, int(raw))
}

// SetComputeMode sets who may use the GPU at the same time, and reads it back.
func (d *Driver) SetComputeMode(ctx context.Context, gpu hardware.GPUID, mode hardware.ComputeMode) error {
	return d.onGPU(ctx, gpu, func(s *session, dev nvml.Device) error {
		if !s.has("nvmlDeviceSetComputeMode") {
			return failure("nvmlDeviceSetComputeMode", gpu.String(), nvml.ERROR_FUNCTION_NOT_FOUND)
		}
		for _, m := range computeModes {
			if m.mode != mode {
				continue
			}
			if ret := dev.SetComputeMode(m.nvml); ret != nvml.SUCCESS {
				return failure("nvmlDeviceSetComputeMode", gpu.String(), ret)
			}
			got, err := s.computeMode(dev, gpu)
			if err == nil && got != mode {
				err = fmt.Errorf("set compute mode of %s: NVML reports success but the mode is %s, not %s", gpu, got, mode)
			}
			return err
		}
		return fmt.Errorf("set compute mode of %s: unknown mode %q", gpu, mode)
	})
}
