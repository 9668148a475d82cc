// Package cdi turns prepared devices into Container Device Interface (CDI) spec
// files, from which a container runtime injects them: one file per claim, with
// the driver's files and control nodes for every container of the claim, and the
// device nodes of each request for those that name it.
package cdi

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"k8s.io/utils/ptr"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Config says where things are. "Seen" paths are those of this process, the
// others those of the host, where the container runtime works.
type Config struct {
	// Dir is where the runtime looks for spec files; "/var/run/cdi" if empty.
	Dir string
	// Vendor is the first part of the CDI kind, vendor/claim; "cleave.dev" if empty.
	Vendor string
	// DriverRoot is the directory under which the driver is installed, as seen;
	// "/" if empty.
	DriverRoot string
	// HostDriverRoot is the same directory on the host; "/" if empty.
	HostDriverRoot string
	// DevRoot is the directory that holds dev, as seen; DriverRoot if empty.
	DevRoot string
	// HookPath is the program nvidia-cdi-hook on the host, which prepares the
	// container's file system; "/usr/bin/nvidia-cdi-hook" if empty.
	HookPath string
	// LdconfigPath is ldconfig on the host; the hook's own default if empty.
	LdconfigPath string
	// FilesDir is for the files that devices bring along, under the same path here and
	// on the host. Without it devices cannot bring any.
	FilesDir string
	// DriverVersion reports the version of the driver that is running. If nil it
	// is read off the names of the driver's libraries.
	DriverVersion func(context.Context) (string, error)
}

// Device is what one allocated device needs in a container.
type Device struct {
	// Result is the device's index in the claim's allocation results.
	Result int
	// Nodes are its device nodes.
	Nodes []hardware.DeviceNode
	// NoDriver marks a device that needs nothing of the NVIDIA driver, a NIC. The driver
	// is left out if all of the claim's devices are such.
	NoDriver bool
	// Env is set in containers that get the device, as "NAME=value".
	Env []string
	// Files are mounted read-only into containers that get the device. Devices of a
	// claim that name the same path mean the same file.
	Files []File
}

// File is a file that only the claim's containers see.
type File struct {
	// Path is an absolute one in the container.
	Path    string
	Content []byte
}

// Writer writes and removes spec files. It may be used concurrently for
// different claims.
type Writer struct {
	cfg Config
	mu  sync.Mutex
	// driver is what every container needs, nil until it could be found in full.
	driver *driverEdits
}

// New prepares a Writer and touches nothing.
func New(cfg Config) *Writer {
	cfg.Dir = cmp.Or(cfg.Dir, "/var/run/cdi")
	cfg.Vendor = cmp.Or(cfg.Vendor, "cleave.dev")
	cfg.DriverRoot = cmp.Or(cfg.DriverRoot, "/")
	cfg.HostDriverRoot = cmp.Or(cfg.HostDriverRoot, "/")
	cfg.DevRoot = cmp.Or(cfg.DevRoot, cfg.DriverRoot)
	cfg.HookPath = cmp.Or(cfg.HookPath, "/usr/bin/nvidia-cdi-hook")
	return &Writer{cfg: cfg}
}

// Write makes the claim's spec file, replacing an older one whole, and returns
// the qualified CDI names in the order of the devices. A device without nodes
// gets no name; if none has any there is nothing to inject, and no file.
//
// It fails while the driver is incomplete, for example on a machine that has just
// started; the same call succeeds later.
func (w *Writer) Write(ctx context.Context, claimUID string, devices []Device) ([]string, error) {
	names := make([]string, len(devices))
	spec := &specs.Spec{Kind: w.kind()}
	needsDriver := false
	for i, d := range devices {
		if len(d.Nodes) == 0 {
			continue
		}
		needsDriver = needsDriver || !d.NoDriver
		device := specs.Device{Name: fmt.Sprintf("%s-%d", claimUID, d.Result), ContainerEdits: w.edits(claimUID, d)}
		spec.Devices = append(spec.Devices, device)
		names[i] = w.kind() + "=" + device.Name
	}
	if len(spec.Devices) == 0 {
		return names, w.Remove(claimUID)
	}
	if needsDriver {
		driver, err := w.driverEdits(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the NVIDIA driver for claim %s: %w", claimUID, err)
		}
		spec.ContainerEdits = driver
	}
	if err := w.saveFiles(claimUID, devices); err != nil {
		return nil, fmt.Errorf("write files of claim %s: %w", claimUID, err)
	}
	if err := w.save(claimUID, spec); err != nil {
		return nil, fmt.Errorf("write CDI spec of claim %s: %w", claimUID, err)
	}
	return names, nil
}

// edits are those of one device.
func (w *Writer) edits(claimUID string, d Device) specs.ContainerEdits {
	edits := specs.ContainerEdits{Env: d.Env}
	for _, n := range d.Nodes {
		edits.DeviceNodes = append(edits.DeviceNodes, node(n.Path, n.Major, n.Minor))
	}
	for _, f := range d.Files {
		edits.Mounts = append(edits.Mounts, &specs.Mount{
			HostPath: w.filePath(claimUID, f.Path), ContainerPath: f.Path,
			Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"},
		})
	}
	return edits
}

func (w *Writer) kind() string { return w.cfg.Vendor + "/claim" }

// node is a device node that the runtime makes without looking for one on the
// host. Who may use it is decided by the claim and kept by the device cgroup, so
// the file mode lets every user of the container in.
func node(path string, major, minor int64) *specs.DeviceNode {
	return &specs.DeviceNode{
		Path: path, Type: "c", Major: major, Minor: minor,
		FileMode: ptr.To(os.FileMode(0o666)), Permissions: "rw",
	}
}
