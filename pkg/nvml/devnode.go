package nvml

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// capabilityClass is the character-device class of the MIG capability nodes; its
// major is assigned when the kernel module is loaded.
const capabilityClass = "nvidia-caps"

// DeviceNodes is the node of the whole GPU, /dev/nvidiaN. The number is the
// GPU's minor, which is not NVML's index. A node that is missing on a machine
// that has just started is an error that a retry can cure.
//
// Graphics workloads need the DRM nodes (/dev/dri) as well, which nobody gets yet.
func (d *Driver) DeviceNodes(ctx context.Context, gpu hardware.GPUID) ([]hardware.DeviceNode, error) {
	nodes, _, err := d.parent(ctx, gpu)
	return nodes, err
}

// MIGDeviceNodes is the node of the GPU and the capability nodes, without which the
// driver opens none of the instances. Their numbers come from the kernel; the files
// under /dev/nvidia-caps need not exist on the host.
func (d *Driver) MIGDeviceNodes(ctx context.Context, gpu hardware.GPUID, gpuInstance int, computeInstances []int) ([]hardware.DeviceNode, error) {
	nodes, minor, err := d.parent(ctx, gpu)
	if err != nil {
		return nil, err
	}
	major, err := d.major(capabilityClass)
	if err != nil {
		return nil, err
	}
	gi := filepath.Join("driver/nvidia/capabilities", fmt.Sprintf("gpu%d", minor), "mig", fmt.Sprintf("gi%d", gpuInstance))
	dirs := []string{gi}
	for _, ci := range computeInstances {
		dirs = append(dirs, filepath.Join(gi, fmt.Sprintf("ci%d", ci)))
	}
	for _, dir := range dirs {
		n, err := d.capability(filepath.Join(dir, "access"))
		if err != nil {
			return nil, fmt.Errorf("find capability node on %s: %w", instanceName(gpu, gpuInstance), err)
		}
		nodes = append(nodes, hardware.DeviceNode{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: major, Minor: n})
	}
	return nodes, nil
}

// parent is the GPU's own node, and its minor as NVML has it.
func (d *Driver) parent(ctx context.Context, gpu hardware.GPUID) ([]hardware.DeviceNode, int, error) {
	var minor int
	err := d.onGPU(ctx, gpu, func(s *session, dev nvml.Device) error {
		m, ret := dev.GetMinorNumber()
		minor = m
		return failure("nvmlDeviceGetMinorNumber", gpu.String(), ret)
	})
	if err != nil {
		return nil, 0, err
	}
	node, err := d.charDevice(fmt.Sprintf("/dev/nvidia%d", minor))
	if err != nil {
		return nil, 0, fmt.Errorf("find device node of %s: %w", gpu, err)
	}
	return []hardware.DeviceNode{node}, minor, nil
}

// charDevice reads the numbers of a device node under the dev root.
func (d *Driver) charDevice(path string) (hardware.DeviceNode, error) {
	seen := filepath.Join(d.cfg.DevRoot, path)
	var st unix.Stat_t
	if err := unix.Stat(seen, &st); err != nil {
		return hardware.DeviceNode{}, &os.PathError{Op: "stat", Path: seen, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return hardware.DeviceNode{}, fmt.Errorf("%s is not a character device", seen)
	}
	rdev := uint64(st.Rdev)
	return hardware.DeviceNode{Path: path, Major: int64(unix.Major(rdev)), Minor: int64(unix.Minor(rdev))}, nil
}

// major finds the major of a character-device class in /proc/devices. The first
// line counts if a class is listed twice.
func (d *Driver) major(class string) (int64, error) {
	path := filepath.Join(d.cfg.ProcRoot, "devices")
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("find major of %s: %w", class, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if lines.Text() == "Block devices:" {
			break
		}
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[1] == class {
			return strconv.ParseInt(f[0], 10, 32)
		}
	}
	return 0, fmt.Errorf("find major of %s: %s does not list it; is the nvidia kernel module loaded with MIG capabilities?: %w",
		class, path, hardware.ErrNotSupported)
}

// capability reads the minor out of a capability file of the kernel module.
func (d *Driver) capability(file string) (int64, error) {
	path := filepath.Join(d.cfg.ProcRoot, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "DeviceFileMinor:"); ok {
			return strconv.ParseInt(strings.TrimSpace(v), 10, 32)
		}
	}
	return 0, fmt.Errorf("%s has no DeviceFileMinor", path)
}
