package hardware

import "errors"

// What hardware answers when it does not do what it was told, whatever library
// was asked. Adapters wrap these with the call and the device.
var (
	// ErrNotFound: the device or instance is not there (any more).
	ErrNotFound = errors.New("not found")
	// ErrNotSupported: this GPU, driver or mode cannot do it.
	ErrNotSupported = errors.New("not supported")
	// ErrInUse: somebody holds the device; it may work later.
	ErrInUse = errors.New("in use by another client")
	// ErrInsufficientResources: the placement is occupied or the GPU is full.
	ErrInsufficientResources = errors.New("insufficient resources")
	// ErrNoPermission: the process lacks a right or a device node.
	ErrNoPermission = errors.New("no permission")
	// ErrLost: the GPU has fallen off the bus.
	ErrLost = errors.New("GPU is lost")
	// ErrDriverUnavailable: the driver or its library cannot be reached.
	ErrDriverUnavailable = errors.New("NVIDIA driver unavailable")
	// ErrReplaced: another GPU sits at the address than the one recorded.
	ErrReplaced = errors.New("another GPU is at this address")
	// ErrResetRequired: a MIG mode change waits for a GPU reset or a reboot.
	ErrResetRequired = errors.New("mode change pending, needs a GPU reset or a reboot")
)
