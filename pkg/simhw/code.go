package simhw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// codes are the names of nvmlReturn_t without NVML_ and ERROR_.
var codes = map[nvml.Return]string{
	nvml.SUCCESS: "SUCCESS", nvml.ERROR_UNINITIALIZED: "UNINITIALIZED", nvml.ERROR_INVALID_ARGUMENT: "INVALID_ARGUMENT",
	nvml.ERROR_NOT_SUPPORTED: "NOT_SUPPORTED", nvml.ERROR_NO_PERMISSION: "NO_PERMISSION",
	nvml.ERROR_ALREADY_INITIALIZED: "ALREADY_INITIALIZED", nvml.ERROR_NOT_FOUND: "NOT_FOUND",
	nvml.ERROR_INSUFFICIENT_SIZE: "INSUFFICIENT_SIZE", nvml.ERROR_INSUFFICIENT_POWER: "INSUFFICIENT_POWER",
	nvml.ERROR_DRIVER_NOT_LOADED: "DRIVER_NOT_LOADED", nvml.ERROR_TIMEOUT: "TIMEOUT", nvml.ERROR_IRQ_ISSUE: "IRQ_ISSUE",
	nvml.ERROR_LIBRARY_NOT_FOUND: "LIBRARY_NOT_FOUND", nvml.ERROR_FUNCTION_NOT_FOUND: "FUNCTION_NOT_FOUND",
	nvml.ERROR_CORRUPTED_INFOROM: "CORRUPTED_INFOROM", nvml.ERROR_GPU_IS_LOST: "GPU_IS_LOST",
	nvml.ERROR_RESET_REQUIRED: "RESET_REQUIRED", nvml.ERROR_OPERATING_SYSTEM: "OPERATING_SYSTEM",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "LIB_RM_VERSION_MISMATCH", nvml.ERROR_IN_USE: "IN_USE", nvml.ERROR_MEMORY: "MEMORY",
	nvml.ERROR_NO_DATA: "NO_DATA", nvml.ERROR_VGPU_ECC_NOT_SUPPORTED: "VGPU_ECC_NOT_SUPPORTED",
	nvml.ERROR_INSUFFICIENT_RESOURCES: "INSUFFICIENT_RESOURCES", nvml.ERROR_FREQ_NOT_SUPPORTED: "FREQ_NOT_SUPPORTED",
	nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "ARGUMENT_VERSION_MISMATCH", nvml.ERROR_DEPRECATED: "DEPRECATED",
	nvml.ERROR_NOT_READY: "NOT_READY", nvml.ERROR_GPU_NOT_FOUND: "GPU_NOT_FOUND", nvml.ERROR_INVALID_STATE: "INVALID_STATE",
	nvml.ERROR_UNKNOWN: "UNKNOWN",
}

// CodeName is a return code as nvml.h names it, for example "IN_USE".
func CodeName(ret nvml.Return) string {
	if name, ok := codes[ret]; ok {
		return name
	}
	return strconv.Itoa(int(ret))
}

// ParseCode reads a name of nvml.h, with or without its prefixes, or a number.
func ParseCode(s string) (nvml.Return, error) {
	short := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(s), "NVML_"), "ERROR_")
	for code, name := range codes {
		if name == short {
			return code, nil
		}
	}
	if n, err := strconv.Atoi(s); err == nil {
		return nvml.Return(n), nil
	}
	return 0, fmt.Errorf("return code %q is not one of nvml.h's: use a number or one of %s", s, strings.Join(codeNames(), ", "))
}

func codeNames() []string {
	var out []string
	for _, name := range codes {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
