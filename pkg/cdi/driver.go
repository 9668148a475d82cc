package cdi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform/root"
	"k8s.io/klog/v2"
	"tags.cncf.io/container-device-interface/specs-go"
)

// ErrIncomplete: files or device nodes of the driver are not there (yet).
var ErrIncomplete = errors.New("NVIDIA driver installation incomplete")

// Without these no CUDA program runs; all others may be missing.
var (
	requiredLibraries = []string{"libcuda.so.", "libnvidia-ml.so."}
	requiredNodes     = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
)

// driverEdits is what every container of every claim needs, and what it was
// found from.
type driverEdits struct {
	version string
	seen    fingerprint
	edits   specs.ContainerEdits
}

// driverEdits finds the edits anew only if the driver's version, its files or its
// control nodes have changed, since that takes tens of milliseconds. An
// incomplete result is neither used nor kept.
func (w *Writer) driverEdits(ctx context.Context) (specs.ContainerEdits, error) {
	var version string
	if w.cfg.DriverVersion != nil {
		v, err := w.cfg.DriverVersion(ctx)
		if err != nil {
			return specs.ContainerEdits{}, err
		}
		version = v
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.driver != nil && w.driver.version == version && w.driver.seen.current() {
		return w.driver.edits, nil
	}
	w.driver = nil
	driver, err := w.discover(ctx, version)
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	if driver.seen.settled(time.Now()) {
		w.driver = driver
	}
	return driver.edits, nil
}

func (w *Writer) discover(ctx context.Context, version string) (*driverEdits, error) {
	// The library cuts the roots off the front of resolved paths.
	driverRoot, err := filepath.EvalSymlinks(w.cfg.DriverRoot)
	if err != nil {
		return nil, fmt.Errorf("%w: driver root: %w", ErrIncomplete, err)
	}
	devRoot, err := filepath.EvalSymlinks(w.cfg.DevRoot)
	if err != nil {
		return nil, fmt.Errorf("%w: dev root: %w", ErrIncomplete, err)
	}
	lib, err := nvcdi.New(
		nvcdi.WithLogger(detail{klog.FromContext(ctx)}),
		nvcdi.WithMode(nvcdi.ModeNvml),
		nvcdi.WithNvmlLib(versionOnly{version: version}),
		nvcdi.WithDriverRoot(driverRoot),
		nvcdi.WithDevRoot(devRoot),
		nvcdi.WithNVIDIACDIHookPath(w.cfg.HookPath),
		nvcdi.WithLdconfigPath(w.cfg.LdconfigPath),
		// Graphics only, and unknown to a host's hook older than 1.20.
		nvcdi.WithDisabledHooks("update-application-profile"),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils, nvcdi.FeatureNoAdditionalGIDsForDeviceNodes),
	)
	if err != nil {
		return nil, err
	}
	common, err := lib.GetCommonEdits()
	if err != nil {
		return nil, fmt.Errorf("%w: under %s: %w", ErrIncomplete, w.cfg.DriverRoot, err)
	}
	edits := *common.ContainerEdits
	if err := w.complete(edits, version); err != nil {
		return nil, err
	}
	seen := fingerprintOf(edits, driverRoot)
	return &driverEdits{version: version, seen: seen, edits: w.forHost(edits, driverRoot)}, nil
}

// complete names everything that is needed and not there.
func (w *Writer) complete(edits specs.ContainerEdits, version string) error {
	var missing []string
	for _, library := range requiredLibraries {
		found := false
		for _, m := range edits.Mounts {
			found = found || strings.HasPrefix(filepath.Base(m.ContainerPath), library)
		}
		if !found {
			missing = append(missing, fmt.Sprintf("%s%s under %s", library, version, w.cfg.DriverRoot))
		}
	}
	for _, path := range requiredNodes {
		found := false
		for _, n := range edits.DeviceNodes {
			found = found || n.Path == path && n.Major != 0
		}
		if !found {
			missing = append(missing, "character device "+filepath.Join(w.cfg.DevRoot, path))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: no %s: has nvidia-modprobe run?", ErrIncomplete, strings.Join(missing, ", no "))
	}
	return nil
}

// forHost rewrites what was seen here into what the runtime finds on the host.
func (w *Writer) forHost(edits specs.ContainerEdits, driverRoot string) specs.ContainerEdits {
	out := edits
	out.DeviceNodes = nil
	for _, n := range edits.DeviceNodes {
		out.DeviceNodes = append(out.DeviceNodes, node(n.Path, n.Major, n.Minor))
	}
	// Only the mounts: the hooks' paths are the host's already.
	mounts := &specs.Spec{ContainerEdits: specs.ContainerEdits{Mounts: edits.Mounts}}
	transform := root.New(root.WithRoot(driverRoot), root.WithTargetRoot(w.cfg.HostDriverRoot))
	_ = transform.Transform(mounts) // it has no way to fail
	out.Mounts = mounts.ContainerEdits.Mounts
	return out
}

// versionOnly is all that the common edits need of NVML. With an empty version
// the toolkit reads it off the libraries' names; NVML itself is never loaded, so
// that there is one session with it per process, that of package nvml.
type versionOnly struct {
	nvml.Interface
	version string
}

func (versionOnly) Init() nvml.Return     { return nvml.SUCCESS }
func (versionOnly) Shutdown() nvml.Return { return nvml.SUCCESS }

func (v versionOnly) SystemGetDriverVersion() (string, nvml.Return) { return v.version, nvml.SUCCESS }

// detail passes the toolkit's messages on; it warns about every optional file
// that a driver does not have.
type detail struct{ klog.Logger }

func (l detail) log(format string, args ...any) {
	l.V(6).Info("Looked for driver files", "detail", fmt.Sprintf(format, args...))
}
func (l detail) Tracef(format string, args ...any)   { l.log(format, args...) }
func (l detail) Debugf(format string, args ...any)   { l.log(format, args...) }
func (l detail) Infof(format string, args ...any)    { l.log(format, args...) }
func (l detail) Warningf(format string, args ...any) { l.log(format, args...) }
func (l detail) Errorf(format string, args ...any)   { l.log(format, args...) }
