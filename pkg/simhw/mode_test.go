package simhw

import (
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// ampere is an engine whose first GPU needs a reset for its MIG mode.
func ampere(t *testing.T, o Options) *Engine {
	t.Helper()
	s, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s.GPUs[0].Model.MIG.ModeNeedsReset = true
	e, err := NewEngine(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func load(t *testing.T, e *Engine, gi, ci int) Process {
	t.Helper()
	p, err := e.Load(0, Process{Name: "test", GPUInstance: gi, ComputeInstance: ci})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantMode(t *testing.T, e *Engine, step string, current, pending bool) {
	t.Helper()
	c, p, ret := e.MIGMode(0)
	if c != current || p != pending || ret != nvml.SUCCESS {
		t.Errorf("%s: MIG mode %t, pending %t, %s; want %t, %t", step, c, p, CodeName(ret), current, pending)
	}
}

func TestSetMIGModeMIGC03(t *testing.T) {
	hopper := func(t *testing.T, o Options) *Engine { return newEngine(t, "mixed", o) }
	tests := map[string]struct {
		engine           func(*testing.T, Options) *Engine
		machine          Virtualization
		busy             bool
		activation, ret  nvml.Return
		current, pending bool
	}{
		"Hopper":                {hopper, BareMetal, false, nvml.SUCCESS, nvml.SUCCESS, true, true},
		"Hopper, busy":          {hopper, BareMetal, true, nvml.ERROR_IN_USE, nvml.ERROR_IN_USE, false, false},
		"Hopper passed through": {hopper, Passthrough, false, nvml.SUCCESS, nvml.SUCCESS, true, true},
		"Ampere":                {ampere, BareMetal, false, nvml.ERROR_RESET_REQUIRED, nvml.SUCCESS, false, true},
		"Ampere, busy":          {ampere, BareMetal, true, nvml.ERROR_IN_USE, nvml.SUCCESS, false, true},
		"Ampere passed through": {ampere, Passthrough, false, nvml.ERROR_RESET_REQUIRED, nvml.SUCCESS, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := tc.engine(t, Options{Virtualization: tc.machine})
			if tc.busy {
				load(t, e, NoInstance, NoInstance)
			}
			activation, ret := e.SetMIGMode(0, true)
			if activation != tc.activation || ret != tc.ret {
				t.Errorf("activation %s, return %s; want %s, %s", CodeName(activation), CodeName(ret), CodeName(tc.activation), CodeName(tc.ret))
			}
			wantMode(t, e, "then", tc.current, tc.pending)
			if _, ret := e.CreateGPUInstance(0, id1g, nil); (ret == nvml.SUCCESS) != tc.current {
				t.Errorf("create with mode %t: %s", tc.current, CodeName(ret))
			}
		})
	}
}

func TestVGPUGuestHasNoMIGDISC01(t *testing.T) {
	e := newEngine(t, "mixed", Options{Virtualization: VGPU})
	if _, _, ret := e.MIGMode(0); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("MIG mode: %s", CodeName(ret))
	}
	if _, ret := e.SetMIGMode(0, true); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("set MIG mode: %s", CodeName(ret))
	}
	if _, ret := e.Profile(0, 0); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("profile: %s", CodeName(ret))
	}
	n, _, err := NewDriver(e).Node(t.Context())
	if err != nil || n.GPUs[0].MIG != nil {
		t.Errorf("discovery finds MIG %+v, %v", n.GPUs[0].MIG, err)
	}
}

// What puts a pending mode into effect, and what does not.
func TestPendingMode(t *testing.T) {
	tests := map[string]struct {
		machine Virtualization
		do      func(*testing.T, *Engine) *Engine
		on      bool
	}{
		"reset":                     {BareMetal, reset(nvml.SUCCESS), true},
		"reset in a machine":        {Passthrough, reset(nvml.ERROR_NOT_SUPPORTED), false},
		"reset while busy":          {BareMetal, resetBusy, false},
		"reboot":                    {BareMetal, reboot, true},
		"reboot of a machine":       {Passthrough, reboot, false},
		"a restart of the daemon":   {BareMetal, restart, false},
		"taking it back, and reset": {BareMetal, takeBack, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := ampere(t, Options{Virtualization: tc.machine, StateFile: filepath.Join(t.TempDir(), "state")})
			if activation, ret := e.SetMIGMode(0, true); activation != nvml.ERROR_RESET_REQUIRED || ret != nvml.SUCCESS {
				t.Fatalf("set: %s, %s", CodeName(activation), CodeName(ret))
			}
			e = tc.do(t, e)
			wantMode(t, e, name, tc.on, tc.on || name != "taking it back, and reset")
		})
	}
}

func reset(want nvml.Return) func(*testing.T, *Engine) *Engine {
	return func(t *testing.T, e *Engine) *Engine {
		if ret := e.Reset(0); ret != want {
			t.Errorf("reset: %s, want %s", CodeName(ret), CodeName(want))
		}
		return e
	}
}

func resetBusy(t *testing.T, e *Engine) *Engine {
	load(t, e, NoInstance, NoInstance)
	return reset(nvml.ERROR_IN_USE)(t, e)
}

func reboot(t *testing.T, e *Engine) *Engine {
	if err := e.Reboot(); err != nil {
		t.Fatal(err)
	}
	return e
}

func restart(t *testing.T, e *Engine) *Engine {
	again, err := NewEngine(e.server, e.options)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func takeBack(t *testing.T, e *Engine) *Engine {
	if activation, ret := e.SetMIGMode(0, false); activation != nvml.SUCCESS || ret != nvml.SUCCESS {
		t.Errorf("take back: %s, %s", CodeName(activation), CodeName(ret))
	}
	return reset(nvml.SUCCESS)(t, e)
}

func TestModeSurvivesARebootOnAmpere(t *testing.T) {
	e := ampere(t, Options{})
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	reset(nvml.SUCCESS)(t, e)
	create(t, e, id1g, 0, 1)
	reboot(t, e)
	wantMode(t, e, "after a reboot", true, true)
	if left := e.Snapshot().GPUs[0].Instances; len(left) > 0 {
		t.Errorf("instances survived: %+v", left)
	}
}

func TestRebootREST01(t *testing.T) {
	e := withMIG(t)
	create(t, e, id1g, 0, 1)
	before := e.Snapshot()
	reboot(t, e)
	after := e.Snapshot()
	if after.BootID == before.BootID || len(after.BootID) != 36 {
		t.Errorf("boot id %q after %q", after.BootID, before.BootID)
	}
	if len(after.GPUs[0].Instances) != 0 || after.GPUs[0].MIGEnabled {
		t.Errorf("after a reboot: %+v", after.GPUs[0])
	}
}

func TestResetRemovesInstances(t *testing.T) {
	e := withMIG(t)
	in := create(t, e, id1g, 0, 1)
	if ret := e.Reset(0); ret != nvml.SUCCESS {
		t.Fatalf("reset: %s", CodeName(ret))
	}
	if _, ret := e.GPUInstance(Handle{Serial: in.Serial}); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("the instance after a reset: %s", CodeName(ret))
	}
	wantMode(t, e, "after a reset on Hopper", true, true)
}

func TestMinorsSYSF06(t *testing.T) {
	e := newEngine(t, "mixed", Options{Minors: []int{3, 0}, MinorsMove: true})
	minors := func() [2]int { s := e.Snapshot(); return [2]int{s.GPUs[0].Minor, s.GPUs[1].Minor} }
	if got := minors(); got != [2]int{3, 0} {
		t.Errorf("minors %v", got)
	}
	enable(t, e, 0)
	if got := minors(); got != [2]int{4, 0} {
		t.Errorf("minors %v after a change of mode", got)
	}
	for name, bad := range map[string][]int{"twice": {1, 1}, "too few": {1}, "too large": {0, 32}, "negative": {0, -1}} {
		if _, err := NewEngine(e.server, Options{Minors: bad}); err == nil {
			t.Errorf("%s: minors %v were taken", name, bad)
		}
	}
	if _, err := NewEngine(e.server, Options{Virtualization: "cloud"}); err == nil {
		t.Error("an unknown kind of machine was taken")
	}
}
