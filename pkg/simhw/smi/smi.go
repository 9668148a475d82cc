// Package smi is a stand-in for nvidia-smi on simulated hardware: it lists the
// GPUs and MIG devices that this process can see, through libnvidia-ml.so.1 as
// any other client does.
package smi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Exit codes of nvidia-smi (its manual, "Return Value").
const (
	exitUsage      = 2
	exitNotFound   = 6
	exitNoDriver   = 9
	exitNoLibrary  = 12
	exitOtherError = 255
)

const usage = `This is a stand-in for nvidia-smi on simulated hardware. It can do one thing:
    nvidia-smi -L    list the GPUs and MIG devices that this process can see
`

// Run is the command; executable is the path of the running program, by which
// the library of the same driver root is found.
func Run(executable string, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || args[0] != "-L" && args[0] != "--list-gpus" {
		fmt.Fprint(stdout, usage)
		if len(args) == 0 {
			return 0
		}
		return exitUsage
	}
	text, err := list(nvml.New(nvml.WithLibraryPath(library(executable))))
	fmt.Fprint(stdout, text)
	return report(err, stdout, stderr)
}

// library is the one beside the program, else whatever the loader finds.
func library(executable string) string {
	const soname = "libnvidia-ml.so.1"
	root, ok := strings.CutSuffix(executable, "/usr/bin/nvidia-smi")
	if !ok {
		return soname
	}
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64"} {
		path := filepath.Join("/", root, dir, soname)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return soname
}

// list is what -L prints.
func list(lib nvml.Interface) (string, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return "", ret
	}
	defer func() { _ = lib.Shutdown() }()
	var b strings.Builder
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return "", ret
	}
	if n == 0 {
		return "", nvml.ERROR_NOT_FOUND
	}
	for i := range n {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return b.String(), ret
		}
		if err := listGPU(&b, i, d); err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

func listGPU(b *strings.Builder, index int, d nvml.Device) error {
	name, ret := d.GetName()
	if ret != nvml.SUCCESS {
		return ret
	}
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	fmt.Fprintf(b, "GPU %d: %s (UUID: %s)\n", index, name, uuid)
	most, ret := d.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return ret
	}
	for i := range most {
		m, ret := d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != nvml.SUCCESS {
			return ret
		}
		if err := listMIG(b, i, m); err != nil {
			return err
		}
	}
	return nil
}

func listMIG(b *strings.Builder, index int, m nvml.Device) error {
	name, ret := m.GetName()
	if ret != nvml.SUCCESS {
		return ret
	}
	uuid, ret := m.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	_, profile, _ := strings.Cut(name, " MIG ")
	fmt.Fprintf(b, "  MIG %-11s Device %2d: (UUID: %s)\n", profile, index, uuid)
	return nil
}

// report prints what nvidia-smi prints, and returns its exit code.
func report(err error, stdout, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, nvml.ERROR_LIBRARY_NOT_FOUND):
		fmt.Fprintln(stderr, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.")
		return exitNoLibrary
	case errors.Is(err, nvml.ERROR_DRIVER_NOT_LOADED):
		fmt.Fprintln(stderr, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.")
		return exitNoDriver
	case errors.Is(err, nvml.ERROR_NOT_FOUND):
		fmt.Fprintln(stdout, "No devices found.")
		return exitNotFound
	default:
		fmt.Fprintf(stderr, "Unable to list the GPUs: %v\n", err)
		return exitOtherError
	}
}
