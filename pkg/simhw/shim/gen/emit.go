package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// changes matches functions that must not be sent twice.
var changes = regexp.MustCompile(`Set[A-Z]|Clear|Create|Destroy|Remove|Reset|Modify|Register|Free|Alloc|Validate|Discover|Activate|Update|Freeze|Force|ReadWrite|Wait|SampleGet`)

// unbounded marks an array whose length the caller promises to be large enough.
const unbounded = ""

// arrays names, for each function, its array parameters and where the number of
// their elements stands. nvml.h says so only in prose.
var arrays = map[string]map[string]string{
	"nvmlSystemGetHicVersion":                             {"hwbcEntries": "hwbcCount"},
	"nvmlSystemGetTopologyGpuSet":                         {"deviceArray": "count"},
	"nvmlUnitGetDevices":                                  {"devices": "deviceCount"},
	"nvmlDeviceGetMemoryAffinity":                         {"nodeSet": "nodeSetSize"},
	"nvmlDeviceGetCpuAffinityWithinScope":                 {"cpuSet": "cpuSetSize"},
	"nvmlDeviceGetCpuAffinity":                            {"cpuSet": "cpuSetSize"},
	"nvmlDeviceGetTopologyNearestGpus":                    {"deviceArray": "count"},
	"nvmlDeviceGetSupportedMemoryClocks":                  {"clocksMHz": "count"},
	"nvmlDeviceGetSupportedGraphicsClocks":                {"clocksMHz": "count"},
	"nvmlDeviceGetSupportedPerformanceStates":             {"pstates": "size/"},
	"nvmlDeviceGetEncoderSessions":                        {"sessionInfos": "sessionCount"},
	"nvmlDeviceGetFBCSessions":                            {"sessionInfo": "sessionCount"},
	"nvmlDeviceGetComputeRunningProcesses":                {"infos": "infoCount"},
	"nvmlDeviceGetComputeRunningProcesses_v2":             {"infos": "infoCount"},
	"nvmlDeviceGetComputeRunningProcesses_v3":             {"infos": "infoCount"},
	"nvmlDeviceGetGraphicsRunningProcesses":               {"infos": "infoCount"},
	"nvmlDeviceGetGraphicsRunningProcesses_v2":            {"infos": "infoCount"},
	"nvmlDeviceGetGraphicsRunningProcesses_v3":            {"infos": "infoCount"},
	"nvmlDeviceGetMPSComputeRunningProcesses":             {"infos": "infoCount"},
	"nvmlDeviceGetMPSComputeRunningProcesses_v2":          {"infos": "infoCount"},
	"nvmlDeviceGetMPSComputeRunningProcesses_v3":          {"infos": "infoCount"},
	"nvmlDeviceGetSamples":                                {"samples": "sampleCount"},
	"nvmlDeviceGetAccountingPids":                         {"pids": "count"},
	"nvmlDeviceGetRetiredPages":                           {"addresses": "pageCount"},
	"nvmlDeviceGetRetiredPages_v2":                        {"addresses": "pageCount", "timestamps": "pageCount"},
	"nvmlDeviceGetProcessUtilization":                     {"utilization": "processSamplesCount"},
	"nvmlDeviceGetFieldValues":                            {"values": "=valuesCount"},
	"nvmlDeviceClearFieldValues":                          {"values": "=valuesCount"},
	"nvmlDeviceGetSupportedVgpus":                         {"vgpuTypeIds": "vgpuCount"},
	"nvmlDeviceGetCreatableVgpus":                         {"vgpuTypeIds": "vgpuCount"},
	"nvmlDeviceGetActiveVgpus":                            {"vgpuInstances": "vgpuCount"},
	"nvmlVgpuInstanceGetEncoderSessions":                  {"sessionInfo": "sessionCount"},
	"nvmlVgpuInstanceGetFBCSessions":                      {"sessionInfo": "sessionCount"},
	"nvmlVgpuInstanceGetMetadata":                         {"vgpuMetadata": "bufferSize/"},
	"nvmlDeviceGetVgpuMetadata":                           {"pgpuMetadata": "bufferSize/"},
	"nvmlDeviceGetVgpuUtilization":                        {"utilizationSamples": "vgpuInstanceSamplesCount"},
	"nvmlDeviceGetVgpuProcessUtilization":                 {"utilizationSamples": "vgpuProcessSamplesCount"},
	"nvmlVgpuInstanceGetAccountingPids":                   {"pids": "count"},
	"nvmlDeviceGetGpuInstancePossiblePlacements":          {"placements": unbounded},
	"nvmlDeviceGetGpuInstancePossiblePlacements_v2":       {"placements": unbounded},
	"nvmlDeviceGetGpuInstances":                           {"gpuInstances": unbounded},
	"nvmlGpuInstanceGetComputeInstancePossiblePlacements": {"placements": unbounded},
	"nvmlGpuInstanceGetComputeInstances":                  {"computeInstances": unbounded},
}

// texts are the sizes of string buffers whose length is not a parameter but said
// in prose (NVML_GSP_FIRMWARE_VERSION_BUF_SIZE).
var texts = map[string]string{"nvmlDeviceGetGspFirmwareVersion": "64"}

// emit writes one function.
func emit(w io.Writer, f function, sizes map[string]int) error {
	var params, args []string
	used := 0
	for i, p := range f.params {
		declared, err := declare(p, sizes)
		if err != nil {
			return err
		}
		params = append(params, declared)
		arg, isArray, err := pass(f, i, sizes)
		if err != nil {
			return err
		}
		if isArray {
			used++
		}
		args = append(args, arg)
	}
	if used != len(arrays[f.name]) {
		return fmt.Errorf("the list of arrays names a parameter that is not there")
	}
	mode := "READS"
	if changes.MatchString(f.name) {
		mode = "CHANGES"
	}
	if len(params) == 0 {
		fmt.Fprintf(w, "\nAPI int %s(void)\n{\n    return forward(%q, %s, NULL, 0);\n}\n", f.name, f.name, mode)
		return nil
	}
	fmt.Fprintf(w, "\nAPI int %s(%s)\n{\n    const struct arg args[] = {\n        %s,\n    };\n    return forward(%q, %s, args, %d);\n}\n",
		f.name, strings.Join(params, ", "), strings.Join(args, ",\n        "), f.name, mode, len(args))
	return nil
}

// declare writes a parameter with a type of the same size: all of nvml.h's are
// integers, enums, pointers or structs that hold one pointer, so that they travel
// in the same registers.
func declare(p param, sizes map[string]int) (string, error) {
	switch {
	case p.pointer && p.input && p.base == "char":
		return "const char *" + p.name, nil
	case p.pointer && p.input:
		return "const void *" + p.name, nil
	case p.pointer:
		return "void *" + p.name, nil
	}
	switch n := sizes[p.base]; n {
	case 1, 2, 4, 8:
		return fmt.Sprintf("uint%d_t %s", 8*n, p.name), nil
	default:
		return "", fmt.Errorf("parameter %s: %s has %d bytes", p.name, p.base, n)
	}
}

// pass writes how a parameter is handed on, and whether it is a listed array.
func pass(f function, i int, sizes map[string]int) (string, bool, error) {
	p := f.params[i]
	size := sizes[p.base]
	count, isArray := arrays[f.name][p.name]
	switch {
	case !p.pointer:
		return fmt.Sprintf("arg_value(&%s, sizeof(%s))", p.name, p.name), false, nil
	case isArray && count == unbounded:
		return fmt.Sprintf("arg_output(%s, UNBOUNDED)", p.name), true, nil
	case isArray:
		s, err := passArray(f, p, count, size)
		return s, true, err
	case p.base == "char" && p.input:
		return fmt.Sprintf("arg_string(%s)", p.name), false, nil
	case p.base == "char" && texts[f.name] != "":
		return fmt.Sprintf("arg_output(%s, %s)", p.name, texts[f.name]), false, nil
	case p.base == "char":
		if i+1 >= len(f.params) {
			return "", false, fmt.Errorf("parameter %s: no length follows", p.name)
		}
		n, err := number(f, f.params[i+1].name)
		return fmt.Sprintf("arg_output(%s, %s)", p.name, n), false, err
	case p.versioned && p.input:
		return fmt.Sprintf("arg_versioned_input(%s, %d)", p.name, size), false, nil
	case p.versioned:
		return fmt.Sprintf("arg_versioned(%s, %d)", p.name, size), false, nil
	case p.input:
		return fmt.Sprintf("arg_input(%s, %d)", p.name, size), false, nil
	default:
		return fmt.Sprintf("arg_inout(%s, %d)", p.name, size), false, nil
	}
}

// passArray: "=" before the count means that the caller fills the array, "/"
// after it that the count is in bytes.
func passArray(f function, p param, count string, size int) (string, error) {
	how := "arg_output"
	if strings.HasPrefix(count, "=") {
		how = "arg_array"
	}
	name := strings.Trim(count, "=/")
	if strings.HasSuffix(count, "/") {
		size = 1
	}
	n, err := number(f, name)
	return fmt.Sprintf("%s(%s, %s * %d)", how, p.name, n, size), err
}

// number is the C expression for a count or length parameter.
func number(f function, name string) (string, error) {
	for _, p := range f.params {
		if p.name == name && p.pointer {
			return fmt.Sprintf("at(%s)", name), nil
		}
		if p.name == name {
			return fmt.Sprintf("(uint64_t)%s", name), nil
		}
	}
	return "", fmt.Errorf("no parameter %s", name)
}
