package simhw

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Names that a fault's Call may have beside those of nvml.h.
const (
	// CallInit is the start of a connection: a client makes one in nvmlInit and
	// whenever it has too few.
	CallInit = "nvmlInit"
	// CallAny is every call.
	CallAny = "*"
)

// Fault is something that goes wrong with calls until it is cleared, has struck
// often enough, or the engine ends.
type Fault struct {
	// ID is given by AddFault, from 1.
	ID int `json:"id"`
	// Call is the function's name in nvml.h. The versions of a function are one:
	// nvmlDeviceGetCount is nvmlDeviceGetCount_v2, too.
	Call string `json:"call"`
	// GPU is the slot, Instance the id of the GPU instance that calls must be
	// about; nil means whatever they are about.
	GPU      *int `json:"gpu,omitempty"`
	Instance *int `json:"instance,omitempty"`
	// Times is how many calls it strikes; 0 means all.
	Times int `json:"times,omitempty"`
	// Delay is how long the call takes longer; with Block it says nothing.
	Delay time.Duration `json:"-"`
	// Block holds the call until the fault is released or cleared.
	Block bool `json:"block,omitempty"`
	// Return is what the call returns instead of doing anything; SUCCESS lets it
	// do what it should.
	Return nvml.Return `json:"-"`
	// NoEffect lets a call that changes something succeed without doing it.
	NoEffect bool `json:"noEffect,omitempty"`
	// Late does it so much later after all, with NoEffect.
	Late time.Duration `json:"-"`
	// Pends makes a change of MIG mode wait for a GPU reset.
	Pends bool `json:"pends,omitempty"`
	// Stale makes the enumeration by index still return MIG devices that went
	// after the client had come (NVIDIA/libcudacxx#224).
	Stale bool `json:"stale,omitempty"`

	// Struck counts the calls that it met, Waiting those that it holds now.
	Struck  int `json:"struck"`
	Waiting int `json:"waiting,omitempty"`
}

// faultJSON has codes by name and times in Go's form ("1.5s").
type faultJSON struct {
	*faultFields
	Return string `json:"return,omitempty"`
	Delay  string `json:"delay,omitempty"`
	Late   string `json:"late,omitempty"`
}

type faultFields Fault

// MarshalJSON writes what UnmarshalJSON reads.
func (f Fault) MarshalJSON() ([]byte, error) {
	out := faultJSON{faultFields: (*faultFields)(&f)}
	if f.Return != nvml.SUCCESS {
		out.Return = CodeName(f.Return)
	}
	if f.Delay > 0 {
		out.Delay = f.Delay.String()
	}
	if f.Late > 0 {
		out.Late = f.Late.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads return codes by name and times in Go's form.
func (f *Fault) UnmarshalJSON(raw []byte) error {
	in := faultJSON{faultFields: (*faultFields)(f)}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	var err, err2, err3 error
	if in.Return != "" {
		f.Return, err = ParseCode(in.Return)
	}
	if in.Delay != "" {
		f.Delay, err2 = time.ParseDuration(in.Delay)
	}
	if in.Late != "" {
		f.Late, err3 = time.ParseDuration(in.Late)
	}
	return errors.Join(err, err2, err3)
}

// Functions that some kinds of fault are about.
const (
	callSetMIGMode    = "nvmlDeviceSetMigMode"
	callSetCompute    = "nvmlDeviceSetComputeMode"
	callDestroyGI     = "nvmlGpuInstanceDestroy"
	callDestroyCI     = "nvmlComputeInstanceDestroy"
	callMIGByIndex    = "nvmlDeviceGetMigDeviceHandleByIndex"
	callGetMIGMode    = "nvmlDeviceGetMigMode"
	callGetCompute    = "nvmlDeviceGetComputeMode"
	callCreateGI      = "nvmlDeviceCreateGpuInstanceWithPlacement"
	callCreateCI      = "nvmlGpuInstanceCreateComputeInstance"
	callListGI        = "nvmlDeviceGetGpuInstances"
	callUUID          = "nvmlDeviceGetUUID"
	callMinor         = "nvmlDeviceGetMinorNumber"
	callDriverVersion = "nvmlSystemGetDriverVersion"
)

// check refuses a fault that could do nothing.
func (f Fault) check() error {
	switch {
	case f.Call == "":
		return errors.New("a fault needs the name of a call")
	case f.Times < 0 || f.Delay < 0 || f.Late < 0:
		return errors.New("numbers and times of a fault must not be negative")
	case f.Return == nvml.SUCCESS && f.Delay == 0 && !f.Block && !f.NoEffect && !f.Pends && !f.Stale:
		return errors.New("a fault needs an effect: a return code, a delay, block, no effect, pends or stale")
	}
	return f.fits()
}

// fits refuses what the call cannot do.
func (f Fault) fits() error {
	switch {
	case f.NoEffect && !changesWithoutResult(f.Call):
		return fmt.Errorf("%s has a result, so it cannot succeed without effect: only %s, %s, %s and %s can",
			f.Call, callDestroyGI, callDestroyCI, callSetMIGMode, callSetCompute)
	case f.Late > 0 && !f.NoEffect:
		return errors.New("only what has no effect at first can have it late")
	case f.Pends && f.Call != callSetMIGMode:
		return fmt.Errorf("only %s can pend", callSetMIGMode)
	case f.Stale && f.Call != callMIGByIndex:
		return fmt.Errorf("only %s can be stale", callMIGByIndex)
	}
	return nil
}

func changesWithoutResult(call string) bool {
	switch call {
	case callDestroyGI, callDestroyCI, callSetMIGMode, callSetCompute:
		return true
	}
	return false
}

// Call is one call as faults and counters see it.
type Call struct {
	// Function is the name in nvml.h.
	Function string
	// GPU is the slot and Instance the id of the GPU instance that the call is
	// about; negative for none.
	GPU, Instance int
	// Changes tells that the call changes something when it succeeds.
	Changes bool
}

var versionSuffix = regexp.MustCompile(`_v[0-9]+$`)

// BaseName is a function's name without its version.
func BaseName(function string) string {
	if function == "nvmlInitWithFlags" {
		return CallInit
	}
	return versionSuffix.ReplaceAllString(function, "")
}

// meets tells whether a fault is about a call.
func (f Fault) meets(c Call) bool {
	return (f.Call == CallAny || BaseName(f.Call) == BaseName(c.Function)) &&
		(f.GPU == nil || *f.GPU == c.GPU) && (f.Instance == nil || *f.Instance == c.Instance) &&
		(f.Times == 0 || f.Struck < f.Times)
}
