package nvml

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// CreateComputeInstance makes a compute instance of so many compute slices, 0 for
// the one that takes the whole GPU instance, where NVML chooses, and reads the UUID
// that the MIG device got. One that cannot be read is destroyed again.
func (d *Driver) CreateComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, slices int) (hardware.ComputeInstance, error) {
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
		info, err := choose(offered, slices)
		if err != nil {
			return fmt.Errorf("create compute instance on %s: %w", on, err)
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

// choose is the profile with so many compute slices, or with the most if that is 0.
// Variants come after the plain profile in NVML's enum (7_SLICE_NVL after 7_SLICE),
// so the first wins.
func choose(infos []nvml.ComputeInstanceProfileInfo, slices int) (nvml.ComputeInstanceProfileInfo, error) {
	var out nvml.ComputeInstanceProfileInfo
	var sizes []string
	for _, info := range infos {
		sizes = append(sizes, strconv.Itoa(int(info.SliceCount)))
		if slices == 0 && info.SliceCount > out.SliceCount || slices > 0 && int(info.SliceCount) == slices && out.SliceCount == 0 {
			out = info
		}
	}
	if out.SliceCount == 0 {
		return out, fmt.Errorf("%w: no compute-instance profile of %d slices, only of %s", hardware.ErrNotSupported, slices, strings.Join(sizes, ", "))
	}
	return out, nil
}
