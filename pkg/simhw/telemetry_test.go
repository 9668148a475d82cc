package simhw

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleave-dra/cleave/pkg/mig"
)

func startProcess(t *testing.T, e *Engine, p Process) {
	t.Helper()
	if _, err := e.Load(0, p); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, e *Engine, change func(*Settings)) {
	t.Helper()
	if ret := e.SetSettings(0, change); ret != nvml.SUCCESS {
		t.Fatalf("settings: %d", ret)
	}
}

var train = Process{PID: 7, Name: "train", MemoryMiB: 512, GPUInstance: NoInstance, ComputeInstance: NoInstance}

// oneSlice makes a slice of 1g at a start and returns its GPU instance.
func oneSlice(t *testing.T, e *Engine, start int) InstanceState {
	t.Helper()
	in, ret := e.CreateGPUInstance(0, 19, &mig.Placement{Start: start, Size: 1})
	if ret != nvml.SUCCESS {
		t.Fatalf("create GPU instance: %d", ret)
	}
	if _, ret := e.CreateComputeInstance(Handle{GPU: 0, Serial: in.Serial}, 0, nil); ret != nvml.SUCCESS {
		t.Fatalf("create compute instance: %d", ret)
	}
	return in
}

// Readings follow the load and are the same every time.
func TestReadings(t *testing.T) {
	e := testEngine(t, "mixed")
	idle := Reading{
		PowerMilliwatts: 70_000, LimitMilliwatts: 700_000, DefaultLimitMilliwatts: 700_000,
		TemperatureC: 30, MemoryTemperatureC: 38, SMClockMHz: 345, MemoryClockMHz: 2619,
	}
	busy := idle
	busy.Busy, busy.MemoryBusy, busy.PowerMilliwatts, busy.TemperatureC, busy.MemoryTemperatureC, busy.SMClockMHz = 100, 50, 630_000, 65, 73, 1980
	capped := busy
	capped.PowerMilliwatts, capped.LimitMilliwatts = 300_000, 300_000
	steps := []struct {
		name string
		do   func()
		want Reading
	}{
		{"fresh", func() {}, idle},
		{"with a process", func() { startProcess(t, e, train) }, busy},
		{"with a lower limit", func() { set(t, e, func(s *Settings) { s.PowerLimitMilliwatts = 300_000 }) }, capped},
		{"after a reboot", func() { _ = e.Reboot() }, idle},
	}
	last := uint64(0)
	for _, step := range steps {
		step.do()
		for range 2 {
			got, ret := e.Reading(0)
			if diff := cmp.Diff(step.want, got, cmpopts.IgnoreFields(Reading{}, "EnergyMillijoules")); diff != "" || ret != nvml.SUCCESS {
				t.Errorf("%s: %d (-want +got):\n%s", step.name, ret, diff)
			}
			if got.EnergyMillijoules < last {
				t.Errorf("%s: energy fell from %d to %d mJ", step.name, last, got.EnergyMillijoules)
			}
			last = got.EnergyMillijoules
		}
	}
}

func TestMIGLoadAndMemory(t *testing.T) {
	e := testEngine(t, "mixed")
	if _, ret := e.SetMIGMode(0, true); ret != nvml.SUCCESS {
		t.Fatalf("MIG mode: %d", ret)
	}
	first, second := oneSlice(t, e, 0), oneSlice(t, e, 1)
	on := train
	on.GPUInstance, on.ComputeInstance = first.ID, 0
	startProcess(t, e, on)
	g := e.Snapshot().GPUs[0]
	got := []int64{g.UsedMiB(NoInstance), g.UsedMiB(first.ID), g.UsedMiB(second.ID)}
	if diff := cmp.Diff([]int64{518, 515, 3}, got); diff != "" {
		t.Errorf("MiB used of the GPU, first and second instance (-want +got):\n%s", diff)
	}
	r, _ := e.Reading(0)
	if want := 100.0 / 7; r.Busy < want-0.01 || r.Busy > want+0.01 {
		t.Errorf("busy %v %%, want one of seven slices, %v", r.Busy, want)
	}
}

// A meter sums up what was, not what is when somebody looks.
func TestMeter(t *testing.T) {
	e := testEngine(t, "mixed")
	start := time.Now()
	idle := e.Snapshot()
	e.gauges.meters = map[int]*meter{0: {until: start, busy: map[int]float64{}}}
	e.advance(&idle, 0, start.Add(10*time.Second))
	loaded := *idle.clone()
	loaded.GPUs[0].Processes = []Process{train}
	m := e.advance(&loaded, 0, start.Add(30*time.Second))
	if m.millijoule != 10*70_000+20*630_000 || m.busy[NoInstance] != 20 {
		t.Errorf("%v mJ and %v s busy", m.millijoule, m.busy[NoInstance])
	}
}

func TestGPMSamples(t *testing.T) {
	e := testEngine(t, "mixed")
	first, second := e.AllocateGPMSample(), e.AllocateGPMSample()
	at := time.Now()
	fill := func(n uint64, s GPMSample) { e.gauges.samples.by[n] = s }
	tests := map[string]struct {
		a, b GPMSample
		want float64
		ret  nvml.Return
	}{
		"idle":            {GPMSample{At: at, GI: NoInstance}, GPMSample{At: at.Add(time.Second), GI: NoInstance}, 0, nvml.SUCCESS},
		"half":            {GPMSample{At: at, BusySeconds: 3}, GPMSample{At: at.Add(2 * time.Second), BusySeconds: 4}, 50, nvml.SUCCESS},
		"not filled":      {GPMSample{}, GPMSample{At: at}, 0, nvml.ERROR_INVALID_ARGUMENT},
		"wrong order":     {GPMSample{At: at.Add(time.Second)}, GPMSample{At: at}, 0, nvml.ERROR_INVALID_ARGUMENT},
		"two GPUs":        {GPMSample{At: at}, GPMSample{At: at.Add(time.Second), GPU: 1}, 0, nvml.ERROR_INVALID_ARGUMENT},
		"GPU and a slice": {GPMSample{At: at, GI: NoInstance}, GPMSample{At: at.Add(time.Second), GI: 7}, 0, nvml.ERROR_INVALID_ARGUMENT},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fill(first, tc.a)
			fill(second, tc.b)
			if got, ret := e.GPMBusy(first, second); got != tc.want || ret != tc.ret {
				t.Errorf("%v, %d, want %v, %d", got, ret, tc.want, tc.ret)
			}
		})
	}
	if ret := e.FillGPMSample(first, 0, 7); ret != nvml.ERROR_NOT_FOUND {
		t.Errorf("sample of no instance: %d", ret)
	}
	if ret := e.FreeGPMSample(first); ret != nvml.SUCCESS {
		t.Errorf("free: %d", ret)
	}
	if ret := e.FillGPMSample(first, 0, NoInstance); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("fill a freed sample: %d", ret)
	}
}

func TestAccounting(t *testing.T) {
	e := testEngine(t, "mixed")
	if _, ret := e.Accounts(0); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("accounts with the mode off: %d", ret)
	}
	startProcess(t, e, train)
	set(t, e, func(s *Settings) { s.Accounting = true })
	other := train
	other.PID = 8
	startProcess(t, e, other)
	if err := e.Unload(0, train.PID); err != nil {
		t.Fatal(err)
	}
	describe := func() map[int]bool {
		accounts, ret := e.Accounts(0)
		if ret != nvml.SUCCESS {
			t.Fatalf("accounts: %d", ret)
		}
		running := map[int]bool{}
		for _, a := range accounts {
			running[a.PID] = a.Running()
		}
		return running
	}
	if diff := cmp.Diff(map[int]bool{7: false, 8: true}, describe()); diff != "" {
		t.Errorf("processes and whether they run (-want +got):\n%s", diff)
	}
	if ret := e.ClearAccounts(0); ret != nvml.SUCCESS {
		t.Errorf("clear: %d", ret)
	}
	if diff := cmp.Diff(map[int]bool{8: true}, describe()); diff != "" {
		t.Errorf("after clearing (-want +got):\n%s", diff)
	}
}
