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

	"nvmlDeviceGetPciInfoExt":             read(2, devicePCIExt),
	"nvmlDeviceGetModuleId":               read(2, moduleID),
	"nvmlDeviceGetAddressingMode":         read(2, addressingMode),
	"nvmlDeviceGetC2cModeInfoV":           read(2, c2cMode),
	"nvmlDeviceGetMemoryAffinity":         read(4, memoryAffinity),
	"nvmlDeviceGetCpuAffinityWithinScope": read(4, cpuAffinityWithinScope),
	"nvmlDeviceGetCpuAffinity":            read(3, cpuAffinity),
	"nvmlSystemGetTopologyGpuSet":         read(3, topologyGPUSet),
	"nvmlDeviceGetTopologyCommonAncestor": read(3, commonAncestor),
	"nvmlDeviceGetTopologyNearestGpus":    read(4, nearestGPUs),
	"nvmlDeviceGetP2PStatus":              read(4, p2pStatus),
	"nvmlDeviceGetNvLinkState":            read(3, linkState),
	"nvmlDeviceGetNvLinkVersion":          read(3, linkVersion),
	"nvmlDeviceGetNvLinkCapability":       read(4, linkCapability),
	"nvmlDeviceGetNvLinkRemotePciInfo":    read(3, linkRemotePCI),
	"nvmlDeviceGetNvLinkRemotePciInfo_v2": read(3, linkRemotePCI),
	"nvmlDeviceGetNvLinkRemoteDeviceType": read(3, linkRemoteType),
	"nvmlDeviceGetNvLinkErrorCounter":     read(4, linkErrors),
	"nvmlDeviceResetNvLinkErrorCounters":  change(2, resetLinkErrors),
	"nvmlDeviceGetGpuFabricInfo":          read(2, fabricInfo),
	"nvmlDeviceGetGpuFabricInfoV":         read(2, fabricInfoV),
	"nvmlDeviceGetGpuFabricInfo_v4":       read(2, fabricInfoV4),

	"nvmlDeviceGetEccMode":                   read(3, eccMode),
	"nvmlDeviceGetDefaultEccMode":            read(2, defaultECCMode),
	"nvmlDeviceGetTotalEccErrors":            read(4, totalECCErrors),
	"nvmlDeviceGetDetailedEccErrors":         read(4, detailedECCErrors),
	"nvmlDeviceGetMemoryErrorCounter":        read(5, memoryErrorCounter),
	"nvmlDeviceClearEccErrorCounts":          change(2, clearECCErrors),
	"nvmlDeviceGetSramEccErrorStatus":        read(2, sramErrors),
	"nvmlDeviceGetRemappedRows":              read(5, remappedRows),
	"nvmlDeviceGetRemappedRows_v2":           read(2, remappedRowsV2),
	"nvmlDeviceGetRowRemapperHistogram":      read(2, rowHistogram),
	"nvmlDeviceGetRetiredPages":              read(4, retiredPages),
	"nvmlDeviceGetRetiredPages_v2":           read(5, retiredPages),
	"nvmlDeviceGetRetiredPagesPendingStatus": read(2, retiredPagesPending),
	"nvmlDeviceGetRepairStatus":              read(2, repairStatus),
	"nvmlDeviceGetFieldValues":               read(3, fieldValues),

	"nvmlDeviceGetSupportedEventTypes": read(2, supportedEvents),
	"nvmlEventSetCreate":               read(1, createEventSet),
	"nvmlDeviceRegisterEvents":         read(3, registerEvents),
	"nvmlEventSetWait":                 read(3, waitEvent),
	"nvmlEventSetWait_v2":              read(3, waitEvent),
	"nvmlEventSetFree":                 read(1, freeEventSet),

	"nvmlDeviceGetBAR1MemoryInfo":                  read(2, bar1Memory),
	"nvmlDeviceGetUtilizationRates":                read(2, utilization),
	"nvmlDeviceGetEncoderUtilization":              read(3, mediaUtilization),
	"nvmlDeviceGetDecoderUtilization":              read(3, mediaUtilization),
	"nvmlDeviceGetJpgUtilization":                  read(3, mediaUtilization),
	"nvmlDeviceGetOfaUtilization":                  read(3, mediaUtilization),
	"nvmlDeviceGetPowerUsage":                      read(2, powerUsage),
	"nvmlDeviceGetPowerManagementMode":             read(2, constant(uint32(nvml.FEATURE_ENABLED))),
	"nvmlDeviceGetPowerManagementLimit":            read(2, powerLimit),
	"nvmlDeviceGetEnforcedPowerLimit":              read(2, powerLimit),
	"nvmlDeviceGetPowerManagementDefaultLimit":     read(2, powerDefault),
	"nvmlDeviceGetPowerManagementLimitConstraints": read(3, powerConstraints),
	"nvmlDeviceSetPowerManagementLimit":            change(2, setPowerLimit),
	"nvmlDeviceGetTotalEnergyConsumption":          read(2, totalEnergy),
	"nvmlDeviceGetTemperature":                     read(3, temperature),
	"nvmlDeviceGetTemperatureV":                    read(2, temperatureV),
	"nvmlDeviceGetTemperatureThreshold":            read(3, temperatureThreshold),
	"nvmlDeviceGetClockInfo":                       read(3, clockInfo),
	"nvmlDeviceGetMaxClockInfo":                    read(3, maxClockInfo),
	"nvmlDeviceGetClock":                           read(4, clock),
	"nvmlDeviceGetPerformanceState":                read(2, constant(uint32(nvml.PSTATE_0))),
	"nvmlDeviceGetPowerState":                      read(2, constant(uint32(nvml.PSTATE_0))),
	"nvmlDeviceGetCurrentClocksEventReasons":       read(2, clocksReasons),
	"nvmlDeviceGetCurrentClocksThrottleReasons":    read(2, clocksReasons),
	"nvmlDeviceGetSupportedClocksEventReasons":     read(2, supportedClocksReasons),
	"nvmlDeviceGetSupportedClocksThrottleReasons":  read(2, supportedClocksReasons),
	"nvmlDeviceGetViolationStatus":                 read(3, violationStatus),
	"nvmlDeviceGetPcieThroughput":                  read(3, pcieThroughput),
	"nvmlDeviceGetPcieReplayCounter":               read(2, constant(0)),
	"nvmlDeviceGetMaxPcieLinkGeneration":           read(2, pcieGeneration),
	"nvmlDeviceGetGpuMaxPcieLinkGeneration":        read(2, pcieGeneration),
	"nvmlDeviceGetCurrPcieLinkGeneration":          read(2, pcieGeneration),
	"nvmlDeviceGetMaxPcieLinkWidth":                read(2, constant(pcieLanes)),
	"nvmlDeviceGetCurrPcieLinkWidth":               read(2, constant(pcieLanes)),
	"nvmlDeviceGetDisplayMode":                     read(2, constant(uint32(nvml.FEATURE_DISABLED))),
	"nvmlDeviceGetDisplayActive":                   read(2, constant(uint32(nvml.FEATURE_DISABLED))),
	"nvmlDeviceGetMultiGpuBoard":                   read(2, constant(0)),
	"nvmlDeviceGetPersistenceMode":                 read(2, persistenceMode),
	"nvmlDeviceSetPersistenceMode":                 change(2, setPersistenceMode),

	"nvmlDeviceGetComputeRunningProcesses":       read(3, runningV1),
	"nvmlDeviceGetComputeRunningProcesses_v2":    read(3, running),
	"nvmlDeviceGetComputeRunningProcesses_v3":    read(3, running),
	"nvmlDeviceGetGraphicsRunningProcesses":      read(3, noneRunning),
	"nvmlDeviceGetGraphicsRunningProcesses_v2":   read(3, noneRunning),
	"nvmlDeviceGetGraphicsRunningProcesses_v3":   read(3, noneRunning),
	"nvmlDeviceGetMPSComputeRunningProcesses":    read(3, noneRunning),
	"nvmlDeviceGetMPSComputeRunningProcesses_v2": read(3, noneRunning),
	"nvmlDeviceGetMPSComputeRunningProcesses_v3": read(3, noneRunning),
	"nvmlSystemGetProcessName":                   read(3, processName),
	"nvmlDeviceGetProcessUtilization":            read(4, processUtilization),
	"nvmlDeviceGetAccountingMode":                read(2, accountingMode),
	"nvmlDeviceSetAccountingMode":                change(2, setAccountingMode),
	"nvmlDeviceGetAccountingBufferSize":          read(2, accountingBuffer),
	"nvmlDeviceGetAccountingPids":                read(3, accountingPIDs),
	"nvmlDeviceGetAccountingStats":               read(3, accountingStats),
	"nvmlDeviceGetAccountingStats_v2":            read(2, accountingStatsV2),
	"nvmlDeviceClearAccountingPids":              change(1, clearAccounting),

	"nvmlGpmQueryDeviceSupport": read(2, gpmQuery),
	"nvmlGpmSampleAlloc":        read(1, gpmAllocate),
	"nvmlGpmSampleFree":         read(1, gpmFree),
	"nvmlGpmSampleGet":          read(2, gpmGet),
	"nvmlGpmMigSampleGet":       read(3, gpmMIGGet),
	"nvmlGpmMetricsGet":         read(1, gpmMetricsGet),
}
