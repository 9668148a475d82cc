package simhw

import (
	"fmt"
	"slices"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// DriverState is the kernel module and the library beside it.
type DriverState struct {
	// Unloaded tells that the kernel module is not there: every call, the first
	// one too, is DRIVER_NOT_LOADED.
	Unloaded bool `json:"unloaded,omitempty"`
	// NodesGone tells that the device nodes went with it.
	NodesGone bool `json:"nodesGone,omitempty"`
	// Mismatch tells that the library is another version than the module, as
	// after an update without a reload: Init is LIB_RM_VERSION_MISMATCH.
	Mismatch bool `json:"mismatch,omitempty"`
	// Version is what NVML calls the driver's version.
	Version string `json:"version"`
	// BusIDs is how NVML writes PCI addresses.
	BusIDs BusIDForm `json:"busIDs,omitempty"`
}

// BusIDForm is a way to write PCI addresses; drivers have not always agreed.
type BusIDForm string

// Forms of "0000:3b:00.0".
const (
	BusIDNormal  BusIDForm = ""        // 00000000:3B:00.0
	BusIDShort   BusIDForm = "short"   // 0000:3B:00.0, as before NVML's second version
	BusIDLower   BusIDForm = "lower"   // 00000000:3b:00.0
	BusIDKernel  BusIDForm = "kernel"  // 0000:3b:00.0
	BusIDMissing BusIDForm = "missing" // nothing
)

// BusIDForms are all of them but the normal one.
func BusIDForms() []BusIDForm { return []BusIDForm{BusIDShort, BusIDLower, BusIDKernel, BusIDMissing} }

// loadedDriver is the driver as the server has it.
func loadedDriver(server catalog.Server) DriverState {
	return DriverState{Version: server.DriverVersion}
}

// SetDriver changes the driver's state. It lasts until the engine ends.
func (e *Engine) SetDriver(change func(*DriverState)) error {
	var trial DriverState
	change(&trial)
	if trial.BusIDs != BusIDNormal && !slices.Contains(BusIDForms(), trial.BusIDs) {
		return fmt.Errorf("form of bus ids %q is not known: use one of %v, or none for the normal one", trial.BusIDs, BusIDForms())
	}
	return e.commit(func(s *Snapshot) { change(&s.Driver) })
}
