package smi

import (
	"fmt"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The lines of the summary, as driver 580 draws them.
const (
	summaryTop    = "+-----------------------------------------------------------------------------------------+\n"
	summaryLine   = "+-----------------------------------------+------------------------+----------------------+\n"
	summaryHeader = `| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
`
	migLine   = "+------------------+----------------------------------+-----------+-----------------------+\n"
	migHeader = `| MIG devices:                                                                            |
` + migLine + `| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
`
	processHeader = `| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
`
	noProcesses = "|  No running processes found                                                             |\n"
)

// summary is what nvidia-smi prints without arguments.
func summary(c *client) error {
	gpus, err := c.gpus()
	if err != nil {
		return err
	}
	driver, ret := c.lib.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return ret
	}
	cuda, ret := c.lib.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS {
		return ret
	}
	c.out.WriteString(time.Now().Format("Mon Jan _2 15:04:05 2006") + "\n" + summaryTop)
	fmt.Fprintf(&c.out, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver, driver, fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10))
	c.out.WriteString(summaryLine + summaryHeader)
	for _, g := range gpus {
		if err := c.summaryGPU(g); err != nil {
			return err
		}
	}
	if err := c.summaryMIG(gpus); err != nil {
		return err
	}
	return c.summaryProcesses(gpus)
}

func (c *client) summaryGPU(g gpu) error {
	q := reader{gpu: g}
	first := fmt.Sprintf("| %3d  %-25.25s%8s  | %18s %-4s| %20s |\n", g.index, q.get("name"), onOff(q.get("persistence_mode")),
		q.get("pci.bus_id"), "Off", q.volatileECC())
	second := fmt.Sprintf("| %-3s  %4s    %-3s %22s | %10s / %9s | %7s %12s |\n", "N/A", q.get("temperature.gpu")+"C", q.get("pstate"), q.power(),
		q.mib("memory.used"), q.mib("memory.total"), q.utilization(), q.computeMode())
	mode := q.get("mig.mode.current")
	if mode == notAvailable {
		mode = "N/A"
	}
	third := fmt.Sprintf("| %39s | %22s | %20s |\n", "", "", mode)
	if q.err != nil {
		return q.err
	}
	c.out.WriteString(first + second + third + summaryLine)
	return nil
}

func onOff(mode string) string {
	if mode == "Enabled" {
		return "On"
	}
	return "Off"
}

// volatileECC is a count, and with MIG on only whether there is ECC.
func (q *reader) volatileECC() string {
	count := q.get("ecc.errors.uncorrected.volatile.total")
	switch {
	case count == notAvailable:
		return "N/A"
	case q.get("mig.mode.current") == "Enabled":
		return "On"
	}
	return count
}

func (q *reader) power() string {
	draw, limit := q.get("power.draw"), q.get("power.limit")
	if draw == notAvailable || limit == notAvailable {
		return "N/A /  N/A"
	}
	return fmt.Sprintf("%.0fW / %4.0fW", number(draw), number(limit))
}

func number(text string) float64 {
	var f float64
	_, _ = fmt.Sscan(text, &f) // what is no number is 0
	return f
}

func (q *reader) mib(field string) string { return q.get(field) + "MiB" }

func (q *reader) utilization() string {
	if u := q.get("utilization.gpu"); u != notAvailable {
		return u + "%"
	}
	return "N/A"
}

func (q *reader) computeMode() string {
	switch mode := q.get("compute_mode"); mode {
	case "Exclusive_Process":
		return "E. Process"
	default:
		return mode
	}
}

// summaryMIG draws the table of MIG devices, if any GPU has MIG on.
func (c *client) summaryMIG(gpus []gpu) error {
	var rows strings.Builder
	on := false
	for _, g := range gpus {
		current, _, ret := g.GetMigMode()
		if err := known(ret); err != nil {
			return err
		}
		if ret != nvml.SUCCESS || current != nvml.DEVICE_MIG_ENABLE {
			continue
		}
		on = true
		devices, order, err := g.migDevices()
		if err != nil {
			return err
		}
		for _, i := range order {
			if err := migRow(&rows, g.index, i, devices[i]); err != nil {
				return err
			}
		}
	}
	if !on {
		return nil
	}
	if rows.Len() == 0 {
		rows.WriteString("|  No MIG devices found                                                                   |\n" + summaryTop)
	}
	c.out.WriteString("\n" + summaryTop + migHeader + rows.String())
	return nil
}

func migRow(out *strings.Builder, gpu, index int, m nvml.Device) error {
	gi, ret := m.GetGpuInstanceId()
	if ret != nvml.SUCCESS {
		return ret
	}
	ci, ret := m.GetComputeInstanceId()
	if ret != nvml.SUCCESS {
		return ret
	}
	memory, ret := m.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return ret
	}
	bar1, ret := m.GetBAR1MemoryInfo()
	if err := known(ret); err != nil {
		return err
	}
	a, ret := m.GetAttributes()
	if ret != nvml.SUCCESS {
		return ret
	}
	errors, ret := m.GetMemoryErrorCounter(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM)
	if err := known(ret); err != nil {
		return err
	}
	fmt.Fprintf(out, "| %2d  %3d  %2d  %2d  | %-32s |%3d %6d | %2d %3d  %3d  %3d  %3d |\n", gpu, gi, ci, index,
		ofMiB(memory.Used, memory.Total), a.MultiprocessorCount, errors,
		a.SharedCopyEngineCount, a.SharedEncoderCount, a.SharedDecoderCount, a.SharedOfaCount, a.SharedJpegCount)
	fmt.Fprintf(out, "|                  | %-32s |           |                       |\n%s", ofMiB(bar1.Bar1Used, bar1.Bar1Total), migLine)
	return nil
}

// ofMiB is a size and the total, both given in bytes.
func ofMiB(used, total uint64) string {
	return fmt.Sprintf("%15dMiB / %5dMiB", used>>20, total>>20)
}

// summaryProcesses draws the table of processes. Those of a GPU whose list may
// not be seen are left out, as those of MIG devices without the right to see all.
func (c *client) summaryProcesses(gpus []gpu) error {
	c.out.WriteString("\n" + summaryTop + processHeader)
	found := false
	for _, g := range gpus {
		processes, ret := g.GetComputeRunningProcesses()
		if ret == nvml.ERROR_NO_PERMISSION {
			continue
		}
		if ret != nvml.SUCCESS {
			return ret
		}
		for _, p := range processes {
			found = true
			name, ret := c.lib.SystemGetProcessName(int(p.Pid))
			if ret != nvml.SUCCESS {
				name = "[Not Found]"
			}
			fmt.Fprintf(&c.out, "|  %3d  %4s %4s  %14d      C   %-34.34s %8dMiB |\n", g.index, instance(p.GpuInstanceId), instance(p.ComputeInstanceId),
				p.Pid, name, p.UsedGpuMemory>>20)
		}
	}
	if !found {
		c.out.WriteString(noProcesses)
	}
	c.out.WriteString(summaryTop)
	return nil
}

func instance(id uint32) string {
	if id == 0xffffffff {
		return "N/A"
	}
	return fmt.Sprint(id)
}
