package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const mib = 1 << 20

// Node reads the model, without what only sysfs knows (PCIe root, NUMA node). A
// GPU that cannot be read in full is left out: no value of one GPU ever stands in
// for another's. A GPU whose MIG mode is off and whose profiles this process may not
// read is there as one without MIG. The second result has the reasons, and what else
// a person should know.
func (d *Driver) Node(ctx context.Context) (hardware.Node, []error, error) {
	var node hardware.Node
	var skipped []error
	err := d.do(ctx, func(s *session) (err error) {
		node, skipped, err = s.node(ctx)
		return err
	})
	return node, skipped, err
}

func (s *session) node(ctx context.Context) (hardware.Node, []error, error) {
	version, ret := s.lib.SystemGetDriverVersion()
	if err := failure("nvmlSystemGetDriverVersion", "this node", ret); err != nil {
		return hardware.Node{}, nil, err
	}
	count, ret := s.lib.DeviceGetCount()
	if err := failure("nvmlDeviceGetCount", "this node", ret); err != nil {
		return hardware.Node{}, nil, err
	}
	node := hardware.Node{DriverVersion: version, CUDADriverVersion: s.cudaDriverVersion(), GPUs: []hardware.GPU{}}
	var skipped []error
	for i := range count {
		if err := ctx.Err(); err != nil {
			return hardware.Node{}, nil, err
		}
		gpu, notes, err := s.gpu(i)
		if errors.Is(err, hardware.ErrDriverUnavailable) {
			return hardware.Node{}, nil, err
		}
		if err != nil {
			skipped = append(skipped, fmt.Errorf("leave out GPU with index %d: %w", i, err))
			continue
		}
		skipped = append(skipped, notes...)
		node.GPUs = append(node.GPUs, gpu)
	}
	node.Sort()
	return node, skipped, nil
}

// cudaDriverVersion is 0 when unknown.
func (s *session) cudaDriverVersion() int {
	if !s.has("nvmlSystemGetCudaDriverVersion") {
		return 0
	}
	v, ret := s.lib.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS {
		return 0
	}
	return v
}

// gpu reads the GPU with NVML's index i. The index has no other use: it shifts.
// notes say what a person should know about one that is not left out.
func (s *session) gpu(i int) (g hardware.GPU, notes []error, err error) {
	dev, ret := s.lib.DeviceGetHandleByIndex(i)
	if err := failure("nvmlDeviceGetHandleByIndex", fmt.Sprintf("index %d", i), ret); err != nil {
		return hardware.GPU{}, nil, err
	}
	if g.PCI, err = pciAddress(dev, i); err != nil {
		return hardware.GPU{}, nil, err
	}
	if err := s.identity(dev, &g); err != nil {
		return hardware.GPU{}, nil, err
	}
	s.describe(dev, &g)
	g.NVLink = s.nvlink(dev)
	if g.MIG, notes, err = s.mig(dev, g); err != nil {
		return hardware.GPU{}, nil, err
	}
	return g, notes, nil
}

func pciAddress(dev nvml.Device, i int) (hardware.PCIAddress, error) {
	info, ret := dev.GetPciInfo()
	if err := failure("nvmlDeviceGetPciInfo", fmt.Sprintf("index %d", i), ret); err != nil {
		return "", err
	}
	var raw []byte
	for _, c := range info.BusId {
		if c == 0 {
			break
		}
		raw = append(raw, byte(c))
	}
	return hardware.ParsePCIAddress(string(raw))
}

// identity reads what a GPU cannot be published without.
func (s *session) identity(dev nvml.Device, g *hardware.GPU) error {
	on := string(g.PCI)
	var ret nvml.Return
	if g.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
		return failure("nvmlDeviceGetUUID", on, ret)
	}
	if g.Minor, ret = dev.GetMinorNumber(); ret != nvml.SUCCESS {
		return failure("nvmlDeviceGetMinorNumber", on, ret)
	}
	if g.ProductName, ret = dev.GetName(); ret != nvml.SUCCESS {
		return failure("nvmlDeviceGetName", on, ret)
	}
	// GPUs without memory of their own answer NOT_SUPPORTED: it stays unknown.
	memory, ret := dev.GetMemoryInfo()
	if ret != nvml.SUCCESS && !unavailable(ret) {
		return failure("nvmlDeviceGetMemoryInfo", on, ret)
	}
	g.MemoryMiB = int64(memory.Total / mib)
	return nil
}

// describe adds what a GPU can do without. go-nvlib has the names that users
// know from NVIDIA's own DRA driver; what it cannot name stays unknown.
func (s *session) describe(dev nvml.Device, g *hardware.GPU) {
	named, err := device.New(s.lib).NewDevice(dev)
	if err != nil {
		return
	}
	optional := func(symbol string, get func() (string, error)) string {
		if !s.has(symbol) {
			return ""
		}
		v, err := get()
		if err != nil || v == "Unknown" {
			return ""
		}
		return v
	}
	g.Brand = optional("nvmlDeviceGetBrand", named.GetBrandAsString)
	g.Architecture = optional("nvmlDeviceGetArchitecture", named.GetArchitectureAsString)
	g.CUDAComputeCapability = optional("nvmlDeviceGetCudaComputeCapability", named.GetCudaComputeCapabilityAsString)
}
