package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// failure turns what a call returned into an error: which call, on what, the
// meaning as a sentinel of package hardware where there is one, and what to do.
// It is nil on success.
func failure(call, on string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	meaning, advice := explain(ret)
	if meaning == nil {
		meaning = errors.New(ret.Error())
	}
	if advice != "" {
		advice = ": " + advice
	}
	return fmt.Errorf("%s on %s: %w (NVML error %d)%s", call, on, meaning, int(ret), advice)
}

// explain gives the sentinel for a return code, nil if it has none, and advice
// where there is something that a person can do.
func explain(ret nvml.Return) (meaning error, advice string) {
	switch ret {
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_LIBRARY_NOT_FOUND:
		return hardware.ErrDriverUnavailable, ""
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return hardware.ErrDriverUnavailable, "load the nvidia kernel module"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return hardware.ErrDriverUnavailable,
			"library and kernel module have different versions; after a driver update restart this process"
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_DEPRECATED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return hardware.ErrNotSupported, ""
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_NOT_FOUND:
		return hardware.ErrNotFound, ""
	case nvml.ERROR_NO_PERMISSION:
		return hardware.ErrNoPermission,
			"run as root, for MIG with access to the capability nodes in /dev/nvidia-caps"
	case nvml.ERROR_IN_USE:
		return hardware.ErrInUse,
			"stop whatever holds it, for example a process, DCGM or another monitor"
	case nvml.ERROR_INSUFFICIENT_RESOURCES:
		return hardware.ErrInsufficientResources, "the placement is occupied or the GPU is full"
	case nvml.ERROR_GPU_IS_LOST:
		return hardware.ErrLost, "reset the GPU or reboot the node"
	case nvml.ERROR_RESET_REQUIRED:
		return hardware.ErrResetRequired, ""
	default:
		return nil, ""
	}
}

// unavailable tells answers that mean "this GPU does not have that".
func unavailable(ret nvml.Return) bool {
	meaning, _ := explain(ret)
	return errors.Is(meaning, hardware.ErrNotSupported)
}
