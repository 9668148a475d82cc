package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// roomFor is how many instances of one profile a list call gets room for, more
// than any GPU holds. go-nvml sizes its buffer by the profile's instance count,
// which is wrong on A30, and NVML would write past its end.
const roomFor = 32

// Instances lists all GPU instances, in ascending order of their ids. A GPU
// whose MIG mode is off, or that has no MIG, has none.
func (d *Driver) Instances(ctx context.Context, gpu hardware.GPUID) ([]hardware.Instance, error) {
	var out []hardware.Instance
	err := d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) (err error) {
		current, _, err := migMode(dev, gpu)
		if err != nil || !current {
			return err
		}
		out, err = instances(ctx, dev, gpu)
		return err
	})
	if errors.Is(err, hardware.ErrNotSupported) {
		return nil, nil
	}
	return out, err
}

// instances goes by the lists of GPU instances, not by MIG device handles: those
// skip an instance without compute instances and may outlive what they stood for.
func instances(ctx context.Context, dev nvml.Device, gpu hardware.GPUID) ([]hardware.Instance, error) {
	var out []hardware.Instance
	for enum := range mig.ProfileCount {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, ok, err := profileInfo(dev, gpu, enum)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		info.InstanceCount = max(info.InstanceCount, roomFor)
		list, ret := dev.GetGpuInstances(&info)
		if err := failure("nvmlDeviceGetGpuInstances", fmt.Sprintf("%s, profile ID %d", gpu, info.Id), ret); err != nil {
			return nil, err
		}
		for _, gi := range list {
			one, err := instance(gi, gpu)
			if errors.Is(err, hardware.ErrNotFound) {
				continue // destroyed since it was listed
			}
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b hardware.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func instance(gi nvml.GpuInstance, gpu hardware.GPUID) (hardware.Instance, error) {
	info, ret := gi.GetInfo()
	if err := failure("nvmlGpuInstanceGetInfo", gpu.String(), ret); err != nil {
		return hardware.Instance{}, err
	}
	out := hardware.Instance{
		ID:        int(info.Id),
		ProfileID: int(info.ProfileId),
		Placement: mig.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)},
	}
	var err error
	out.Compute, err = computeInstances(gi, gpu, out.ID)
	return out, err
}

func computeInstances(gi nvml.GpuInstance, gpu hardware.GPUID, id int) ([]hardware.ComputeInstance, error) {
	infos, err := computeProfiles(gi, gpu, id)
	if err != nil {
		return nil, err
	}
	var out []hardware.ComputeInstance
	for _, info := range infos {
		info.InstanceCount = max(info.InstanceCount, roomFor)
		list, ret := gi.GetComputeInstances(&info)
		if err := failure("nvmlGpuInstanceGetComputeInstances", instanceName(gpu, id), ret); err != nil {
			return nil, err
		}
		for _, ci := range list {
			one, err := computeInstance(ci, instanceName(gpu, id))
			if errors.Is(err, hardware.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b hardware.ComputeInstance) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// computeProfiles are the kinds of compute instances that a GPU instance offers,
// in the order of NVML's enum.
func computeProfiles(gi nvml.GpuInstance, gpu hardware.GPUID, id int) ([]nvml.ComputeInstanceProfileInfo, error) {
	var out []nvml.ComputeInstanceProfileInfo
	for enum := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := gi.GetComputeInstanceProfileInfo(enum, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if unavailable(ret) || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if err := failure("nvmlGpuInstanceGetComputeInstanceProfileInfo", instanceName(gpu, id), ret); err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

func computeInstance(ci nvml.ComputeInstance, on string) (hardware.ComputeInstance, error) {
	info, ret := ci.GetInfo()
	if err := failure("nvmlComputeInstanceGetInfo", on, ret); err != nil {
		return hardware.ComputeInstance{}, err
	}
	// The device of the info is the MIG device, not the GPU.
	uuid, ret := info.Device.GetUUID()
	if err := failure("nvmlDeviceGetUUID of a MIG device", on, ret); err != nil {
		return hardware.ComputeInstance{}, err
	}
	if !strings.HasPrefix(uuid, "MIG-") {
		return hardware.ComputeInstance{}, fmt.Errorf("read MIG UUID on %s: %q is not one", on, uuid)
	}
	return hardware.ComputeInstance{ID: int(info.Id), UUID: uuid}, nil
}

func instanceName(gpu hardware.GPUID, id int) string {
	return fmt.Sprintf("%s, GPU instance %d", gpu, id)
}
