package serve

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// function is one served call.
type function struct {
	// parameters is how many the C prototype has.
	parameters int
	// changes tells that only a holder of the MIG config capability may call it.
	changes bool
	// finds tells that the last output is a handle, which says what it is about.
	finds bool
	do    func(*call) nvml.Return
}

func read(parameters int, do func(*call) nvml.Return) function {
	return function{parameters: parameters, do: do}
}

func change(parameters int, do func(*call) nvml.Return) function {
	return function{parameters: parameters, changes: true, do: do}
}

// find is for calls that take what to look for and give a handle.
func find(do func(*call) nvml.Return) function {
	return function{parameters: 2, finds: true, do: do}
}

// Serves tells whether a call of that name can do something; versions of a
// function are one.
func Serves(name string) bool {
	for f := range functions {
		if simhw.BaseName(f) == simhw.BaseName(name) {
			return true
		}
	}
	return name == simhw.CallInit
}

// functions is all that is served; everything else is NOT_SUPPORTED.
var functions = map[string]function{
	"nvmlSystemGetDriverVersion":        read(2, systemDriverVersion),
	"nvmlSystemGetNVMLVersion":          read(2, systemNVMLVersion),
	"nvmlSystemGetCudaDriverVersion":    read(1, systemCUDAVersion),
	"nvmlSystemGetCudaDriverVersion_v2": read(1, systemCUDAVersion),

	"nvmlDeviceGetCount":                 read(1, deviceCount),
	"nvmlDeviceGetCount_v2":              read(1, deviceCount),
	"nvmlDeviceGetHandleByIndex":         find(handleByIndex),
	"nvmlDeviceGetHandleByIndex_v2":      find(handleByIndex),
	"nvmlDeviceGetHandleByUUID":          find(handleByUUID),
	"nvmlDeviceGetHandleBySerial":        find(handleBySerial),
	"nvmlDeviceGetHandleByPciBusId":      find(handleByPCI),
	"nvmlDeviceGetHandleByPciBusId_v2":   find(handleByPCI),
	"nvmlDeviceGetName":                  read(3, deviceName),
	"nvmlDeviceGetBrand":                 read(2, deviceBrand),
	"nvmlDeviceGetIndex":                 read(2, deviceIndex),
	"nvmlDeviceGetSerial":                read(3, deviceSerial),
	"nvmlDeviceGetUUID":                  read(3, deviceUUID),
	"nvmlDeviceGetMinorNumber":           read(2, deviceMinor),
	"nvmlDeviceGetPciInfo_v3":            read(2, devicePCI),
	"nvmlDeviceGetArchitecture":          read(2, deviceArchitecture),
	"nvmlDeviceGetCudaComputeCapability": read(3, deviceComputeCapability),
	"nvmlDeviceGetMemoryInfo":            read(2, deviceMemory),
	"nvmlDeviceGetMemoryInfo_v2":         read(2, deviceMemoryV2),
	"nvmlDeviceGetVirtualizationMode":    read(2, deviceVirtualization),
	"nvmlDeviceGetComputeMode":           read(2, getComputeMode),
	"nvmlDeviceSetComputeMode":           change(2, setComputeMode),
	"nvmlDeviceGetMigMode":               read(3, getMIGMode),
	"nvmlDeviceSetMigMode":               change(3, setMIGMode),

	"nvmlDeviceGetGpuInstanceProfileInfo":           read(3, giProfile),
	"nvmlDeviceGetGpuInstanceProfileInfoV":          read(3, giProfileV),
	"nvmlDeviceGetGpuInstanceProfileInfoByIdV":      read(3, giProfileByIDV),
	"nvmlDeviceGetGpuInstancePossiblePlacements":    read(4, giPlacements),
	"nvmlDeviceGetGpuInstancePossiblePlacements_v2": read(4, giPlacements),
	"nvmlDeviceGetGpuInstanceRemainingCapacity":     read(3, giCapacity),
	"nvmlDeviceCreateGpuInstance":                   change(3, createGI),
	"nvmlDeviceCreateGpuInstanceWithPlacement":      change(4, createGIAt),
	"nvmlDeviceGetGpuInstances":                     read(4, listGI),
	"nvmlDeviceGetGpuInstanceById":                  read(3, giByID),
	"nvmlGpuInstanceGetInfo":                        read(2, giInfo),
	"nvmlGpuInstanceDestroy":                        change(1, destroyGI),

	"nvmlGpuInstanceGetComputeInstanceProfileInfo":        read(4, ciProfile),
	"nvmlGpuInstanceGetComputeInstanceProfileInfoV":       read(4, ciProfileV),
	"nvmlGpuInstanceGetComputeInstancePossiblePlacements": read(4, ciPlacements),
	"nvmlGpuInstanceGetComputeInstanceRemainingCapacity":  read(3, ciCapacity),
	"nvmlGpuInstanceCreateComputeInstance":                change(3, createCI),
	"nvmlGpuInstanceCreateComputeInstanceWithPlacement":   change(4, createCIAt),
	"nvmlGpuInstanceGetComputeInstances":                  read(4, listCI),
	"nvmlGpuInstanceGetComputeInstanceById":               read(3, ciByID),
	"nvmlComputeInstanceGetInfo":                          read(2, ciInfo),
	"nvmlComputeInstanceGetInfo_v2":                       read(2, ciInfo),
	"nvmlComputeInstanceDestroy":                          change(1, destroyCI),

	"nvmlDeviceIsMigDeviceHandle":                  read(2, isMIG),
	"nvmlDeviceGetGpuInstanceId":                   read(2, migGI),
	"nvmlDeviceGetComputeInstanceId":               read(2, migCI),
	"nvmlDeviceGetMaxMigDeviceCount":               read(2, maxMIG),
	"nvmlDeviceGetMigDeviceHandleByIndex":          read(3, migByIndex),
	"nvmlDeviceGetDeviceHandleFromMigDeviceHandle": read(2, migParent),
	"nvmlDeviceGetAttributes":                      read(2, migAttributes),
	"nvmlDeviceGetAttributes_v2":                   read(2, migAttributes),
}
