package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// CreateGPUInstance makes an instance of the profile, NVML's enum value, exactly
// at the placement. An instance that turns out to sit elsewhere, or that cannot
// be read, is destroyed again before the error is returned.
func (d *Driver) CreateGPUInstance(ctx context.Context, gpu hardware.GPUID, profile int, at mig.Placement) (hardware.Instance, error) {
	var out hardware.Instance
	err := d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) error {
		on := fmt.Sprintf("%s, profile %#x at slice %d", gpu, profile, at.Start)
		info, ok, err := profileInfo(dev, gpu, profile)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("create GPU instance on %s: %w: the GPU has no such profile", on, hardware.ErrNotSupported)
		}
		gi, ret := dev.CreateGpuInstanceWithPlacement(&info, &nvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)})
		if err := failure("nvmlDeviceCreateGpuInstanceWithPlacement", on, ret); err != nil {
			return err
		}
		out, err = instance(gi, gpu)
		if err == nil && (out.Placement != at || out.ProfileID != int(info.Id)) {
			err = fmt.Errorf("create GPU instance on %s: NVML made one of profile ID %d at slice %d size %d",
				on, out.ProfileID, out.Placement.Start, out.Placement.Size)
		}
		if err == nil {
			return nil
		}
		out = hardware.Instance{}
		return errors.Join(err, failure("nvmlGpuInstanceDestroy", on, gi.Destroy()))
	})
	return out, err
}

// CreateComputeInstance makes the compute instance that takes the whole GPU
// instance, and reads the UUID that the MIG device got. One that cannot be read
// is destroyed again.
func (d *Driver) CreateComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance int) (hardware.ComputeInstance, error) {
	var out hardware.ComputeInstance
	err := d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) error {
		on := instanceName(gpu, gpuInstance)
		gi, ret := dev.GetGpuInstanceById(gpuInstance)
		if err := failure("nvmlDeviceGetGpuInstanceById", on, ret); err != nil {
			return err
		}
		offered, err := computeProfiles(gi, gpu, gpuInstance)
		if err != nil {
			return err
		}
		info, ok := largest(offered)
		if !ok {
			return fmt.Errorf("create compute instance on %s: %w: no compute-instance profile", on, hardware.ErrNotSupported)
		}
		ci, ret := gi.CreateComputeInstance(&info)
		if err := failure("nvmlGpuInstanceCreateComputeInstance", on, ret); err != nil {
			return err
		}
		if out, err = computeInstance(ci, on); err != nil {
			return errors.Join(err, failure("nvmlComputeInstanceDestroy", on, ci.Destroy()))
		}
		return nil
	})
	return out, err
}

// largest is the profile that takes all compute slices. Variants come after the
// plain profile in NVML's enum (7_SLICE_NVL after 7_SLICE), so the first wins.
func largest(infos []nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstanceProfileInfo, bool) {
	var out nvml.ComputeInstanceProfileInfo
	for _, info := range infos {
		if info.SliceCount > out.SliceCount {
			out = info
		}
	}
	return out, out.SliceCount > 0
}
