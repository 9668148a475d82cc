package simhw

// Minors of the nvidia-caps device nodes. The driver lists them in
// /proc/driver/nvidia-caps/mig-minors; the formula fits every listing published.
const (
	// CapabilityConfig belongs to mig/config: whoever has it may change MIG.
	CapabilityConfig = 1
	// CapabilityMonitor belongs to mig/monitor: whoever has it may see all of MIG.
	CapabilityMonitor = 2
	// MaxGPUs, MaxGPUInstances and MaxComputeInstances bound the formula.
	MaxGPUs             = 32
	MaxGPUInstances     = 15
	MaxComputeInstances = maxComputeInstances
)

// GPUInstanceMinor is the capability minor of a GPU instance; gpu is the GPU's
// own minor, N of /dev/nvidiaN.
func GPUInstanceMinor(gpu, gi int) int { return 3 + 135*gpu + 9*gi }

// ComputeInstanceMinor is that of a compute instance.
func ComputeInstanceMinor(gpu, gi, ci int) int { return GPUInstanceMinor(gpu, gi) + 1 + ci }
