package nvml

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// destroyPoll is how often a destroyed instance is looked for.
const destroyPoll = 50 * time.Millisecond

// DestroyGPUInstance destroys the instance and waits until it is gone. It wraps
// hardware.ErrNotFound if there is none, hardware.ErrInUse while processes or
// compute instances use it.
func (d *Driver) DestroyGPUInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance int) error {
	return d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) error {
		on := instanceName(gpu, gpuInstance)
		gi, ret := dev.GetGpuInstanceById(gpuInstance)
		if err := failure("nvmlDeviceGetGpuInstanceById", on, ret); err != nil {
			return err
		}
		if err := failure("nvmlGpuInstanceDestroy", on, gi.Destroy()); err != nil {
			return err
		}
		return d.gone(ctx, "nvmlGpuInstanceDestroy", on, func() nvml.Return {
			_, ret := dev.GetGpuInstanceById(gpuInstance)
			return ret
		})
	})
}

// DestroyComputeInstance destroys the compute instance and waits until it is
// gone. It wraps hardware.ErrNotFound if there is none or its GPU instance is
// gone, hardware.ErrInUse while processes use it.
func (d *Driver) DestroyComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, computeInstance int) error {
	return d.onMIG(ctx, gpu, func(s *session, dev nvml.Device) error {
		on := fmt.Sprintf("%s, compute instance %d", instanceName(gpu, gpuInstance), computeInstance)
		gi, ret := dev.GetGpuInstanceById(gpuInstance)
		if err := failure("nvmlDeviceGetGpuInstanceById", on, ret); err != nil {
			return err
		}
		ci, ret := gi.GetComputeInstanceById(computeInstance)
		if err := failure("nvmlGpuInstanceGetComputeInstanceById", on, ret); err != nil {
			return err
		}
		if err := failure("nvmlComputeInstanceDestroy", on, ci.Destroy()); err != nil {
			return err
		}
		return d.gone(ctx, "nvmlComputeInstanceDestroy", on, func() nvml.Return {
			_, ret := gi.GetComputeInstanceById(computeInstance)
			return ret
		})
	})
}

// gone waits until look finds nothing: NVML has been seen to report success
// while the instance stayed (NVIDIA/go-nvml#146).
func (d *Driver) gone(ctx context.Context, call, on string, look func() nvml.Return) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, destroyPoll, d.cfg.DestroyTimeout, true, func(context.Context) (bool, error) {
		switch ret := look(); ret {
		case nvml.ERROR_NOT_FOUND:
			return true, nil
		case nvml.SUCCESS:
			last = nil
		default:
			last = failure(call+" (check)", on, ret)
		}
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s on %s: wait until it is gone: %w", call, on, ctx.Err())
	case last != nil:
		return last
	default:
		return fmt.Errorf("%s on %s: NVML reports success but the instance is still there after %s: %w",
			call, on, d.cfg.DestroyTimeout, hardware.ErrInUse)
	}
}
