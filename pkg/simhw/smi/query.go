package smi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// notAvailable is what a GPU lacks.
const notAvailable = "[N/A]"

// queried is a field of --query-gpu: the unit that goes with its values, and how
// to read one.
type queried struct {
	unit string
	read func(gpu) (string, nvml.Return)
}

// reader reads fields of a GPU and keeps the first error.
type reader struct {
	gpu gpu
	err error
}

// get is the value of a field without its unit, or notAvailable.
func (q *reader) get(field string) string {
	text, ret := queryFields[field].read(q.gpu)
	switch {
	case ret == nvml.SUCCESS:
		return text
	case ret != nvml.ERROR_NOT_SUPPORTED && q.err == nil:
		q.err = ret
	}
	return notAvailable
}

// text adapts a call that returns something that prints itself.
func text[T any](call func(nvml.Device) (T, nvml.Return)) func(gpu) (string, nvml.Return) {
	return func(g gpu) (string, nvml.Return) {
		v, ret := call(g.Device)
		return fmt.Sprint(v), ret
	}
}

func enabled(call func(nvml.Device) (nvml.EnableState, nvml.Return)) func(gpu) (string, nvml.Return) {
	return func(g gpu) (string, nvml.Return) {
		v, ret := call(g.Device)
		return state(v == nvml.FEATURE_ENABLED), ret
	}
}

func state(on bool) string {
	if on {
		return "Enabled"
	}
	return "Disabled"
}

func milliwatts(call func(nvml.Device) (uint32, nvml.Return)) func(gpu) (string, nvml.Return) {
	return func(g gpu) (string, nvml.Return) {
		mw, ret := call(g.Device)
		return fmt.Sprintf("%.2f", float64(mw)/1000), ret
	}
}

func memory(of func(nvml.Memory) uint64) func(gpu) (string, nvml.Return) {
	return func(g gpu) (string, nvml.Return) {
		m, ret := g.GetMemoryInfo()
		return fmt.Sprint(of(m) >> 20), ret
	}
}

func clock(kind nvml.ClockType) func(gpu) (string, nvml.Return) {
	return text(func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(kind) })
}

func maxClock(kind nvml.ClockType) func(gpu) (string, nvml.Return) {
	return text(func(d nvml.Device) (uint32, nvml.Return) { return d.GetMaxClockInfo(kind) })
}

func eccTotal(kind nvml.MemoryErrorType, counter nvml.EccCounterType) func(gpu) (string, nvml.Return) {
	return text(func(d nvml.Device) (uint64, nvml.Return) { return d.GetTotalEccErrors(kind, counter) })
}

// address is the PCI address in nvidia-smi's form, "00000000:1B:00.0".
func address(g gpu) (string, nvml.Return) {
	info, ret := g.GetPciInfo()
	return fmt.Sprintf("%08X:%02X:%02X.0", info.Domain, info.Bus, info.Device), ret
}

func migMode(pending bool) func(gpu) (string, nvml.Return) {
	return func(g gpu) (string, nvml.Return) {
		now, later, ret := g.GetMigMode()
		if pending {
			now = later
		}
		return state(now == nvml.DEVICE_MIG_ENABLE), ret
	}
}

var computeModes = map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_DEFAULT: "Default", nvml.COMPUTEMODE_PROHIBITED: "Prohibited", nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "Exclusive_Process",
}

// queryFields are the common ones of nvidia-smi --help-query-gpu.
var queryFields = map[string]queried{
	"timestamp":  {"", func(gpu) (string, nvml.Return) { return time.Now().Format("2006/01/02 15:04:05.000"), nvml.SUCCESS }},
	"index":      {"", func(g gpu) (string, nvml.Return) { return fmt.Sprint(g.index), nvml.SUCCESS }},
	"name":       {"", text(nvml.Device.GetName)},
	"gpu_name":   {"", text(nvml.Device.GetName)},
	"uuid":       {"", text(nvml.Device.GetUUID)},
	"gpu_uuid":   {"", text(nvml.Device.GetUUID)},
	"serial":     {"", text(nvml.Device.GetSerial)},
	"gpu_serial": {"", text(nvml.Device.GetSerial)},
	"pci.bus_id": {"", address},
	"gpu_bus_id": {"", address},
	"pstate": {"", func(g gpu) (string, nvml.Return) {
		p, ret := g.GetPerformanceState()
		return fmt.Sprintf("P%d", p), ret
	}},
	"compute_cap": {"", func(g gpu) (string, nvml.Return) {
		major, minor, ret := g.GetCudaComputeCapability()
		return fmt.Sprintf("%d.%d", major, minor), ret
	}},
	"compute_mode": {"", func(g gpu) (string, nvml.Return) {
		mode, ret := g.GetComputeMode()
		return computeModes[mode], ret
	}},
	"persistence_mode": {"", enabled(nvml.Device.GetPersistenceMode)},
	"accounting.mode":  {"", enabled(nvml.Device.GetAccountingMode)},
	"mig.mode.current": {"", migMode(false)},
	"mig.mode.pending": {"", migMode(true)},
	"ecc.mode.current": {"", func(g gpu) (string, nvml.Return) {
		now, _, ret := g.GetEccMode()
		return state(now == nvml.FEATURE_ENABLED), ret
	}},
	"ecc.errors.corrected.volatile.total":    {"", eccTotal(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)},
	"ecc.errors.uncorrected.volatile.total":  {"", eccTotal(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)},
	"ecc.errors.corrected.aggregate.total":   {"", eccTotal(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)},
	"ecc.errors.uncorrected.aggregate.total": {"", eccTotal(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)},
	"memory.total":                           {"MiB", memory(func(m nvml.Memory) uint64 { return m.Total })},
	"memory.used":                            {"MiB", memory(func(m nvml.Memory) uint64 { return m.Used })},
	"memory.free":                            {"MiB", memory(func(m nvml.Memory) uint64 { return m.Free })},
	"utilization.gpu": {"%", func(g gpu) (string, nvml.Return) {
		u, ret := g.GetUtilizationRates()
		return fmt.Sprint(u.Gpu), ret
	}},
	"utilization.memory": {"%", func(g gpu) (string, nvml.Return) {
		u, ret := g.GetUtilizationRates()
		return fmt.Sprint(u.Memory), ret
	}},
	"temperature.gpu":         {"", text(func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) })},
	"power.draw":              {"W", milliwatts(nvml.Device.GetPowerUsage)},
	"power.limit":             {"W", milliwatts(nvml.Device.GetPowerManagementLimit)},
	"power.default_limit":     {"W", milliwatts(nvml.Device.GetPowerManagementDefaultLimit)},
	"enforced.power.limit":    {"W", milliwatts(nvml.Device.GetEnforcedPowerLimit)},
	"clocks.sm":               {"MHz", clock(nvml.CLOCK_SM)},
	"clocks.current.sm":       {"MHz", clock(nvml.CLOCK_SM)},
	"clocks.mem":              {"MHz", clock(nvml.CLOCK_MEM)},
	"clocks.current.memory":   {"MHz", clock(nvml.CLOCK_MEM)},
	"clocks.max.sm":           {"MHz", maxClock(nvml.CLOCK_SM)},
	"clocks.max.memory":       {"MHz", maxClock(nvml.CLOCK_MEM)},
	"pcie.link.gen.current":   {"", text(nvml.Device.GetCurrPcieLinkGeneration)},
	"pcie.link.gen.max":       {"", text(nvml.Device.GetMaxPcieLinkGeneration)},
	"pcie.link.width.current": {"", text(nvml.Device.GetCurrPcieLinkWidth)},
	"pcie.link.width.max":     {"", text(nvml.Device.GetMaxPcieLinkWidth)},
}

// libraryFields are those that the library, not a GPU, knows.
var libraryFields = map[string]func(nvml.Interface) (string, nvml.Return){
	"driver_version": func(l nvml.Interface) (string, nvml.Return) { return l.SystemGetDriverVersion() },
	"count": func(l nvml.Interface) (string, nvml.Return) {
		n, ret := l.DeviceGetCount()
		return fmt.Sprint(n), ret
	},
}

// helpQuery lists the fields.
func helpQuery(c *client) error {
	names := append(slices.Collect(maps.Keys(queryFields)), slices.Collect(maps.Keys(libraryFields))...)
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&c.out, "%q\n", name)
	}
	return nil
}

// parseQuery reads --query-gpu= and --format=, in either order.
func parseQuery(args []string) (action, error) {
	var fields, format []string
	for _, a := range args {
		if f, ok := strings.CutPrefix(a, "--query-gpu="); ok {
			fields = strings.Split(f, ",")
		} else if f, ok := strings.CutPrefix(a, "--format="); ok {
			format = strings.Split(f, ",")
		} else {
			return nil, wrongUsage(fmt.Sprintf("Invalid combination of input arguments: %s", strings.Join(args, " ")))
		}
	}
	for i, f := range fields {
		fields[i] = strings.TrimSpace(f)
		if _, ok := libraryFields[fields[i]]; !ok && queryFields[fields[i]].read == nil {
			return nil, wrongUsage(fmt.Sprintf("Field %q is not a valid field to query.", f))
		}
	}
	for _, f := range format {
		if f != "csv" && f != "noheader" && f != "nounits" {
			return nil, wrongUsage(fmt.Sprintf("Unrecognized format %q: csv, noheader and nounits exist.", f))
		}
	}
	if len(fields) == 0 || !slices.Contains(format, "csv") {
		return nil, wrongUsage("--query-gpu needs --format=csv.")
	}
	return func(c *client) error {
		return c.query(fields, !slices.Contains(format, "noheader"), !slices.Contains(format, "nounits"))
	}, nil
}

// query prints one line for each GPU.
func (c *client) query(fields []string, header, units bool) error {
	gpus, err := c.gpus()
	if err != nil {
		return err
	}
	if header {
		c.out.WriteString(strings.Join(titles(fields, units), ", ") + "\n")
	}
	for _, g := range gpus {
		q := reader{gpu: g}
		var row []string
		for _, f := range fields {
			if read, ok := libraryFields[f]; ok {
				text, ret := read(c.lib)
				if ret != nvml.SUCCESS {
					return ret
				}
				row = append(row, text)
				continue
			}
			text := q.get(f)
			if unit := queryFields[f].unit; units && unit != "" && text != notAvailable {
				text += " " + unit
			}
			row = append(row, text)
		}
		if q.err != nil {
			return q.err
		}
		c.out.WriteString(strings.Join(row, ", ") + "\n")
	}
	return nil
}

func titles(fields []string, units bool) []string {
	out := slices.Clone(fields)
	for i, f := range fields {
		if unit := queryFields[f].unit; units && unit != "" {
			out[i] += " [" + unit + "]"
		}
	}
	return out
}
