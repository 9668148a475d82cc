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
	advice, meaning := explain(ret)
	if meaning == nil {
		meaning = errors.New(ret.Error())
	}
	if advice != "" {
		advice = ": " + advice
	}
	return fmt.Errorf("%s on %s: %w (NVML error %d)%s", call, on, meaning, int(ret), advice)
}

// explain gives advice on a return code where there is something that a person
// can do, and the sentinel that it means, nil if it has none.
func explain(ret nvml.Return) (advice string, meaning error) {
	switch ret {
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_LIBRARY_NOT_FOUND:
		return "", hardware.ErrDriverUnavailable
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "load the nvidia kernel module", hardware.ErrDriverUnavailable
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "library and kernel module have different versions; after a driver update restart this process", hardware.ErrDriverUnavailable
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_DEPRECATED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return "", hardware.ErrNotSupported
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_NOT_FOUND:
		return "", hardware.ErrNotFound
	case nvml.ERROR_NO_PERMISSION:
		return "run as root, for MIG with access to the capability nodes in /dev/nvidia-caps", hardware.ErrNoPermission
	case nvml.ERROR_IN_USE:
		return "stop whatever holds it, for example a process, DCGM or another monitor", hardware.ErrInUse
	case nvml.ERROR_INSUFFICIENT_RESOURCES:
		return "the placement is occupied or the GPU is full", hardware.ErrInsufficientResources
	case nvml.ERROR_GPU_IS_LOST:
		return "reset the GPU or reboot the node", hardware.ErrLost
	case nvml.ERROR_RESET_REQUIRED:
		return "", hardware.ErrResetRequired
	default:
		return "", nil
	}
}

// unavailable tells answers that mean "this GPU does not have that".
func unavailable(ret nvml.Return) bool {
	_, meaning := explain(ret)
	return errors.Is(meaning, hardware.ErrNotSupported)
}
