package host

import (
	"context"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// Driver is what this package asks of a node's NVIDIA driver. Nothing is
// remembered between two calls: every one looks handles and minors up anew, and
// one that changes a GPU first checks that its UUID is the expected one.
//
// Errors wrap the sentinels of package hardware and name the NVML call and the
// GPU. Calls block as long as the driver does; ctx is looked at between calls.
type Driver interface {
	// Node reads the model. A GPU that cannot be read is left out, with the
	// reason in the second result; the error is for the node as a whole
	// (library missing, driver not loaded).
	Node(ctx context.Context) (hardware.Node, []error, error)
	// MIGMode is the current and the pending mode.
	MIGMode(ctx context.Context, gpu hardware.GPUID) (current, pending bool, err error)
	// SetMIGMode asks for a mode; hardware.ErrResetRequired if it only pends.
	SetMIGMode(ctx context.Context, gpu hardware.GPUID, enabled bool) error
	// Instances lists all GPU instances, also those without compute instances.
	Instances(ctx context.Context, gpu hardware.GPUID) ([]hardware.Instance, error)
	// CreateGPUInstance makes an instance exactly at the placement; profile is
	// NVML's enum value, mig.Profile.Enum.
	CreateGPUInstance(ctx context.Context, gpu hardware.GPUID, profile int, at mig.Placement) (hardware.Instance, error)
	// CreateComputeInstance makes a compute instance of so many compute slices; 0
	// means the one that takes the whole GPU instance.
	CreateComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, slices int) (hardware.ComputeInstance, error)
	// DestroyComputeInstance and DestroyGPUInstance wrap hardware.ErrNotFound if
	// there is nothing to destroy.
	DestroyComputeInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance, computeInstance int) error
	DestroyGPUInstance(ctx context.Context, gpu hardware.GPUID, gpuInstance int) error
	ComputeMode(ctx context.Context, gpu hardware.GPUID) (hardware.ComputeMode, error)
	SetComputeMode(ctx context.Context, gpu hardware.GPUID, mode hardware.ComputeMode) error
	// DeviceNodes are the nodes of the whole GPU ("/dev/nvidia0"), with the
	// numbers that the kernel really uses.
	DeviceNodes(ctx context.Context, gpu hardware.GPUID) ([]hardware.DeviceNode, error)
	// MIGDeviceNodes are the nodes that MIG devices of one GPU instance need: that
	// of the GPU and the capability nodes of the instances.
	MIGDeviceNodes(ctx context.Context, gpu hardware.GPUID, gpuInstance int, computeInstances []int) ([]hardware.DeviceNode, error)
}
