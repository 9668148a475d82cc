package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const soname = "libnvidia-ml.so.1"

// libraryDirs is where drivers install their libraries.
var libraryDirs = []string{
	"usr/lib64",
	"usr/lib/x86_64-linux-gnu",
	"usr/lib/aarch64-linux-gnu",
	"usr/lib/x86_64-linux-gnu/nvidia/current",
	"usr/lib/aarch64-linux-gnu/nvidia/current",
	"lib64",
	"usr/lib",
}

// required are the symbols that every call here needs; driver 450, the first
// with MIG, has them all. Alternatives are separated by a bar. go-nvml binds
// symbols when they are first called, and a missing one ends the process
// (NVIDIA/go-nvml, pkg/nvml/const.go), so nothing is called that was not looked up.
var required = []string{
	"nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString",
	"nvmlSystemGetDriverVersion",
	"nvmlDeviceGetCount_v2|nvmlDeviceGetCount",
	"nvmlDeviceGetHandleByIndex_v2|nvmlDeviceGetHandleByIndex",
	"nvmlDeviceGetHandleByPciBusId_v2|nvmlDeviceGetHandleByPciBusId",
	"nvmlDeviceGetPciInfo_v3|nvmlDeviceGetPciInfo_v2|nvmlDeviceGetPciInfo",
	"nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetName",
	"nvmlDeviceGetMemoryInfo",
}

// forMIG are the symbols without which a library counts as one without MIG.
var forMIG = []string{
	"nvmlDeviceGetMigMode", "nvmlDeviceSetMigMode",
	"nvmlDeviceGetGpuInstanceProfileInfo",
	"nvmlDeviceGetGpuInstancePossiblePlacements_v2|nvmlDeviceGetGpuInstancePossiblePlacements",
	"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy",
	"nvmlDeviceGetGpuInstances", "nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
	"nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceCreateComputeInstance",
	"nvmlComputeInstanceDestroy", "nvmlGpuInstanceGetComputeInstances",
	"nvmlGpuInstanceGetComputeInstanceById",
	"nvmlComputeInstanceGetInfo_v2|nvmlComputeInstanceGetInfo",
}

// library is libnvidia-ml.so.1, loaded for as long as the process lives: the
// calls that go-nvml has bound point into it, so it must never be unmapped or
// exchanged. After a driver update the process has to start anew.
type library struct {
	nvml.Interface
	path string
	own  *dl.DynamicLibrary
}

// load opens the library itself before go-nvml does, because go-nvml does not
// tell why an open failed and calls symbols without looking them up.
func load(cfg Config) (*library, error) {
	path, err := find(cfg)
	if err != nil {
		return nil, err
	}
	own := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := own.Open(); err != nil {
		return nil, fmt.Errorf("%w: %w", hardware.ErrDriverUnavailable, err)
	}
	l := &library{Interface: nvml.New(nvml.WithLibraryPath(path)), path: path, own: own}
	if missing := l.missing(required); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s lacks %s: driver 450 or newer is needed",
			hardware.ErrDriverUnavailable, path, strings.Join(missing, ", "))
	}
	return l, nil
}

// find is the path to load, or a name for the loader to search. Under a root of
// its own the driver is not mixed with a library from elsewhere.
func find(cfg Config) (string, error) {
	if cfg.LibraryPath != "" {
		return cfg.LibraryPath, nil
	}
	for _, dir := range libraryDirs {
		path := filepath.Join(cfg.DriverRoot, dir, soname)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	if filepath.Clean(cfg.DriverRoot) == "/" {
		return soname, nil
	}
	return "", fmt.Errorf("%w: no %s under %s (looked in %s): is the driver installed there?",
		hardware.ErrDriverUnavailable, soname, cfg.DriverRoot, strings.Join(libraryDirs, ", "))
}

// missing filters the symbols that the library does not export.
func (l *library) missing(symbols []string) []string {
	var out []string
	for _, s := range symbols {
		exported := func(name string) bool { return l.own.Lookup(name) == nil }
		if !slices.ContainsFunc(strings.Split(s, "|"), exported) {
			out = append(out, s)
		}
	}
	return out
}

// session is the library between initialisation and shutdown.
type session struct {
	lib *library
	// noMIG says why MIG calls cannot be made; empty if they can.
	noMIG string
}

func newSession(l *library) *session {
	s := &session{lib: l}
	if missing := l.missing(forMIG); len(missing) > 0 {
		s.noMIG = fmt.Sprintf("%s lacks %s", l.path, strings.Join(missing, ", "))
	}
	return s
}

// has tells whether a function newer than the required ones may be called.
func (s *session) has(symbol string) bool { return len(s.lib.missing([]string{symbol})) == 0 }
