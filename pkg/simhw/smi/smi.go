// Package smi is a stand-in for nvidia-smi on simulated hardware. It shows the
// GPUs and MIG devices that this process can see, through libnvidia-ml.so.1 as any
// other client does, and prints what nvidia-smi prints.
package smi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

const usage = `This is a stand-in for nvidia-smi on simulated hardware. It can do this:
    nvidia-smi                           a summary of GPUs, MIG devices and processes
    nvidia-smi -L                        list the GPUs and MIG devices
    nvidia-smi --query-gpu=FIELD,... --format=csv[,noheader][,nounits]
    nvidia-smi --help-query-gpu          list the fields
    nvidia-smi topo -m                   how GPUs and NICs are connected
    nvidia-smi mig -lgip                 profiles of GPU instances
    nvidia-smi mig -lgipp                where they can be placed
    nvidia-smi mig -lgi                  GPU instances
    nvidia-smi mig -lci                  compute instances
All but topo take -i GPU,... with indices, UUIDs or PCI addresses.
`

// client is one run of the program.
type client struct {
	lib nvml.Interface
	out strings.Builder
	// sys is where /sys is.
	sys string
	// only are the GPUs that -i names; empty for all.
	only []string
}

// wrongUsage is what nvidia-smi says about a command line.
type wrongUsage string

func (w wrongUsage) Error() string { return string(w) }

// action prints something; it may return an nvml.Return as an error.
type action func(*client) error

// Run is the command; executable is the path of the running program, by which
// the library of the same driver root is found.
func Run(executable string, args []string, stdout, stderr io.Writer) int {
	do, only, err := parse(args)
	if err != nil {
		fmt.Fprintf(stdout, "%v\n%s", err, usage)
		return exitUsage
	}
	c := &client{lib: nvml.New(nvml.WithLibraryPath(library(executable))), sys: sysfs(executable), only: only}
	if ret := c.lib.Init(); ret != nvml.SUCCESS {
		return report(ret, stdout, stderr)
	}
	defer func() { _ = c.lib.Shutdown() }()
	err = do(c)
	fmt.Fprint(stdout, c.out.String())
	return report(err, stdout, stderr)
}

// parse finds out what is wanted of which GPUs.
func parse(args []string) (action, []string, error) {
	args, only, err := takeIDs(args)
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 0 {
		return summary, only, nil
	}
	switch {
	case args[0] == "mig" && len(args) == 2:
		do, ok := migActions[args[1]]
		if !ok {
			return nil, nil, wrongUsage(fmt.Sprintf("Option %q is not recognized.", args[1]))
		}
		return do, only, nil
	case slices.Equal(args, []string{"topo", "-m"}), slices.Equal(args, []string{"topo", "--matrix"}):
		return topology, nil, nil
	case slices.Equal(args, []string{"-L"}), slices.Equal(args, []string{"--list-gpus"}):
		return list, only, nil
	case slices.Equal(args, []string{"--help-query-gpu"}):
		return helpQuery, nil, nil
	case strings.HasPrefix(args[0], "--query-gpu=") || strings.HasPrefix(args[0], "--format="):
		do, err := parseQuery(args)
		return do, only, err
	}
	return nil, nil, wrongUsage(fmt.Sprintf("Invalid combination of input arguments: %s", strings.Join(args, " ")))
}

// takeIDs takes -i and its value out of the arguments.
func takeIDs(args []string) (rest, only []string, err error) {
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], "--id=")
		if args[i] == "-i" || args[i] == "--id" {
			if i++; i == len(args) {
				return nil, nil, wrongUsage("Option -i needs a value.")
			}
			value, joined = args[i], true
		}
		if !joined {
			rest = append(rest, args[i])
			continue
		}
		only = append(only, strings.Split(value, ",")...)
	}
	return rest, only, nil
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

// sysfs is that of the driver root that the program is in, which is the machine's own
// in a container.
func sysfs(executable string) string {
	root, _ := strings.CutSuffix(executable, "/usr/bin/nvidia-smi")
	if root == executable {
		root = ""
	}
	return filepath.Join("/", root, "sys")
}

// gpu is a GPU with the index by which nvidia-smi calls it.
type gpu struct {
	nvml.Device
	index int
}

// gpus are those that are wanted.
func (c *client) gpus() ([]gpu, error) {
	n, ret := c.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	var out []gpu
	for i := range n {
		d, ret := c.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		g := gpu{d, i}
		wanted, err := c.wants(g)
		if err != nil {
			return nil, err
		}
		if wanted {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return nil, nvml.ERROR_NOT_FOUND
	}
	return out, nil
}

func (c *client) wants(g gpu) (bool, error) {
	if len(c.only) == 0 {
		return true, nil
	}
	uuid, ret := g.GetUUID()
	if ret != nvml.SUCCESS {
		return false, ret
	}
	at, ret := address(g)
	if ret != nvml.SUCCESS {
		return false, ret
	}
	return slices.ContainsFunc(c.only, func(id string) bool {
		return id == fmt.Sprint(g.index) || id == uuid || strings.HasSuffix(at, strings.ToUpper(id)) && strings.Contains(id, ":")
	}), nil
}

// migDevices are a GPU's, by the index in its list; none with MIG off.
func (g gpu) migDevices() (map[int]nvml.Device, []int, error) {
	most, ret := g.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, nil, ret
	}
	out := map[int]nvml.Device{}
	var order []int
	for i := range most {
		m, ret := g.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, nil, ret
		}
		out[i] = m
		order = append(order, i)
	}
	return out, order, nil
}

// known is nil for a GPU that lacks something, which is no reason to stop.
func known(ret nvml.Return) error {
	if ret == nvml.SUCCESS || ret == nvml.ERROR_NOT_SUPPORTED {
		return nil
	}
	return ret
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
	case errors.Is(err, errNothing):
		fmt.Fprintln(stdout, err)
		return exitNotFound
	case errors.Is(err, nvml.ERROR_NOT_FOUND):
		fmt.Fprintln(stdout, "No devices found.")
		return exitNotFound
	default:
		fmt.Fprintf(stderr, "Unable to talk to the driver: %v\n", err)
		return exitOtherError
	}
}
