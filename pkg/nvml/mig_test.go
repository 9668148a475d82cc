package nvml_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/nvml"
)

var at4 = mig.Placement{Start: 4, Size: 1}

// migDriver is a driver whose first GPU has MIG mode on.
func migDriver(t *testing.T) *nvml.Driver {
	t.Helper()
	d := newDriver(t, 2)
	must(t, d.SetMIGMode(t.Context(), gpu(0), true))
	return d
}

func instances(t *testing.T, d *nvml.Driver) []hardware.Instance {
	t.Helper()
	list, err := d.Instances(t.Context(), gpu(0))
	must(t, err)
	return list
}

func TestSlice(t *testing.T) {
	d, ctx := migDriver(t), t.Context()
	made, err := d.CreateGPUInstance(ctx, gpu(0), mig.Profile1Slice, at4)
	must(t, err)
	want := hardware.Instance{ID: 11, ProfileID: 19, Placement: at4}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]hardware.Instance{want}, instances(t, d)); diff != "" {
		t.Errorf("without a compute instance (-want +got):\n%s", diff)
	}
	ci, err := d.CreateComputeInstance(ctx, gpu(0), made.ID, 0)
	must(t, err)
	want.Compute = []hardware.ComputeInstance{ci}
	if diff := cmp.Diff([]hardware.Instance{want}, instances(t, d)); diff != "" || !strings.HasPrefix(ci.UUID, "MIG-") {
		t.Errorf("with compute instance %v (-want +got):\n%s", ci, diff)
	}
	wantErr(t, "destroy with a compute instance", d.DestroyGPUInstance(ctx, gpu(0), made.ID), hardware.ErrInUse)
	must(t, d.DestroyComputeInstance(ctx, gpu(0), made.ID, ci.ID))
	wantErr(t, "destroy compute instance again", d.DestroyComputeInstance(ctx, gpu(0), made.ID, ci.ID), hardware.ErrNotFound)
	must(t, d.DestroyGPUInstance(ctx, gpu(0), made.ID))
	wantErr(t, "destroy again", d.DestroyGPUInstance(ctx, gpu(0), made.ID), hardware.ErrNotFound)
	wantErr(t, "destroy compute instance of nothing", d.DestroyComputeInstance(ctx, gpu(0), made.ID, ci.ID), hardware.ErrNotFound)
}

// What could not be made as asked is not left behind.
func TestCreateFails(t *testing.T) {
	tests := map[string]struct {
		fault   string
		profile int
		want    error
	}{
		"placed elsewhere":              {fault: "elsewhere@0=1", want: errUnnamed},
		"cannot be read":                {fault: "nvmlGpuInstanceGetInfo@0=999", want: errUnnamed},
		"MIGC-05 in use":                {fault: "nvmlDeviceCreateGpuInstanceWithPlacement@0=19", want: hardware.ErrInUse},
		"INST-04 no permission":         {fault: "nvmlDeviceCreateGpuInstanceWithPlacement@0=4", want: hardware.ErrNoPermission},
		"full":                          {fault: "nvmlDeviceCreateGpuInstanceWithPlacement@0=23", want: hardware.ErrInsufficientResources},
		"the GPU lacks the profile":     {profile: mig.Profile2Slice, want: hardware.ErrNotSupported},
		"the enum value does not exist": {profile: 99, want: hardware.ErrNotSupported},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := migDriver(t)
			faults(t, tc.fault)
			got, err := d.CreateGPUInstance(t.Context(), gpu(0), tc.profile, at4)
			if tc.want != errUnnamed {
				wantErr(t, "CreateGPUInstance", err, tc.want)
			}
			if err == nil || got.ID != 0 {
				t.Errorf("CreateGPUInstance = %v, %v", got, err)
			}
			faults(t)
			if list := instances(t, d); len(list) > 0 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// MIGC-01: a compute instance that cannot be made or read is not left behind; the
// GPU instance is its caller's, who knows its id.
func TestCreateComputeFails(t *testing.T) {
	tests := map[string]struct {
		fault string
		want  error
	}{
		"MIGC-01 no resources": {fault: "nvmlGpuInstanceCreateComputeInstance@0=23", want: hardware.ErrInsufficientResources},
		"MIGC-01 no info":      {fault: "nvmlComputeInstanceGetInfo@0=15", want: hardware.ErrLost},
		"MIGC-01 no UUID":      {fault: "MIG UUID@0=15", want: hardware.ErrLost},
		"no profile":           {fault: "nvmlGpuInstanceGetComputeInstanceProfileInfo@0=3", want: hardware.ErrNotSupported},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := migDriver(t)
			gi, err := d.CreateGPUInstance(t.Context(), gpu(0), mig.Profile1Slice, at4)
			must(t, err)
			faults(t, tc.fault)
			_, err = d.CreateComputeInstance(t.Context(), gpu(0), gi.ID, 0)
			wantErr(t, "CreateComputeInstance", err, tc.want)
			faults(t)
			if list := instances(t, d); len(list) != 1 || len(list[0].Compute) > 0 {
				t.Errorf("left: %v", list)
			}
			if _, err := d.CreateComputeInstance(t.Context(), gpu(0), gi.ID, 0); err != nil {
				t.Errorf("next attempt: %v", err)
			}
		})
	}
}

func TestDestroyFails(t *testing.T) {
	tests := map[string]struct{ gi, ci, says string }{
		"MIGD-01 in use":         {gi: "nvmlGpuInstanceDestroy@0=19", ci: "nvmlComputeInstanceDestroy@0=19", says: "DCGM"},
		"MIGD-02 without effect": {gi: "nvmlGpuInstanceDestroy@0=*", ci: "nvmlComputeInstanceDestroy@0=*", says: "still there"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d, ctx := migDriver(t), t.Context()
			gi, err := d.CreateGPUInstance(ctx, gpu(0), mig.Profile1Slice, at4)
			must(t, err)
			ci, err := d.CreateComputeInstance(ctx, gpu(0), gi.ID, 0)
			must(t, err)
			check := func(what string, err error) {
				t.Helper()
				wantErr(t, what, err, hardware.ErrInUse)
				if err != nil && (!strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), gpu(0).String()) ||
					!strings.Contains(err.Error(), "instance 11")) {
					t.Errorf("%s: the error does not say %q of instance 11 on %s: %v", what, tc.says, gpu(0), err)
				}
			}
			faults(t, tc.ci)
			check("DestroyComputeInstance", d.DestroyComputeInstance(ctx, gpu(0), gi.ID, ci.ID))
			faults(t)
			must(t, d.DestroyComputeInstance(ctx, gpu(0), gi.ID, ci.ID))
			faults(t, tc.gi)
			check("DestroyGPUInstance", d.DestroyGPUInstance(ctx, gpu(0), gi.ID))
			faults(t)
			must(t, d.DestroyGPUInstance(ctx, gpu(0), gi.ID))
		})
	}
}

func TestSetMIGMode(t *testing.T) {
	tests := map[string]struct {
		fault string
		want  error
	}{
		"switched":                       {},
		"MIGC-03 reset required":         {fault: "activation@0=16", want: hardware.ErrResetRequired},
		"MIGC-04 success without effect": {fault: "nvmlDeviceSetMigMode@0=*", want: hardware.ErrResetRequired},
		"MIGC-05 cannot be activated":    {fault: "activation@0=19", want: hardware.ErrInUse},
		"INST-04 no permission":          {fault: "nvmlDeviceSetMigMode@0=4", want: hardware.ErrNoPermission},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, 1)
			faults(t, tc.fault)
			if err := d.SetMIGMode(t.Context(), gpu(0), true); tc.want != nil {
				wantErr(t, "SetMIGMode", err, tc.want)
			} else {
				must(t, err)
			}
			current, pending, err := d.MIGMode(t.Context(), gpu(0))
			must(t, err)
			if on := tc.want == nil; current != on || pending != on {
				t.Errorf("current %t, pending %t, want %t", current, pending, on)
			}
		})
	}
}

// With MIG mode off there is nothing, whatever the calls would answer.
func TestInstancesWithModeOff(t *testing.T) {
	d := newDriver(t, 1)
	faults(t, "nvmlDeviceGetGpuInstances@0=3")
	if list := instances(t, d); len(list) > 0 {
		t.Errorf("Instances = %v", list)
	}
}

// Nothing is done to another GPU than the one meant.
func TestIdentity(t *testing.T) {
	d := migDriver(t)
	for _, tc := range []struct {
		gpu  hardware.GPUID
		want error
	}{
		{gpu: hardware.GPUID{PCI: gpu(0).PCI, UUID: "GPU-other"}, want: hardware.ErrReplaced},
		{gpu: hardware.GPUID{PCI: gpu(0).PCI}, want: hardware.ErrReplaced},
		{gpu: hardware.GPUID{PCI: "0000:99:00.0", UUID: "GPU-0"}, want: hardware.ErrNotFound},
	} {
		for name, call := range operations(d, tc.gpu) {
			wantErr(t, name+" on "+tc.gpu.String(), call(t.Context()), tc.want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range operations(d, gpu(0)) {
		wantErr(t, name+" after cancellation", call(cancelled), context.Canceled)
	}
}

func operations(d *nvml.Driver, id hardware.GPUID) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"MIGMode":    func(ctx context.Context) error { _, _, err := d.MIGMode(ctx, id); return err },
		"SetMIGMode": func(ctx context.Context) error { return d.SetMIGMode(ctx, id, false) },
		"Instances":  func(ctx context.Context) error { _, err := d.Instances(ctx, id); return err },
		"CreateGPUInstance": func(ctx context.Context) error {
			_, err := d.CreateGPUInstance(ctx, id, mig.Profile1Slice, at4)
			return err
		},
		"CreateComputeInstance":  func(ctx context.Context) error { _, err := d.CreateComputeInstance(ctx, id, 7, 0); return err },
		"DestroyComputeInstance": func(ctx context.Context) error { return d.DestroyComputeInstance(ctx, id, 7, 0) },
		"DestroyGPUInstance":     func(ctx context.Context) error { return d.DestroyGPUInstance(ctx, id, 7) },
		"ComputeMode":            func(ctx context.Context) error { _, err := d.ComputeMode(ctx, id); return err },
		"SetComputeMode": func(ctx context.Context) error {
			return d.SetComputeMode(ctx, id, hardware.ComputeModeDefault)
		},
		"DeviceNodes":    func(ctx context.Context) error { _, err := d.DeviceNodes(ctx, id); return err },
		"MIGDeviceNodes": func(ctx context.Context) error { _, err := d.MIGDeviceNodes(ctx, id, 7, []int{0}); return err },
	}
}

func TestComputeMode(t *testing.T) {
	d, ctx := newDriver(t, 1), t.Context()
	for _, mode := range []hardware.ComputeMode{hardware.ComputeModeExclusiveProcess, hardware.ComputeModeProhibited, hardware.ComputeModeDefault} {
		must(t, d.SetComputeMode(ctx, gpu(0), mode))
		got, err := d.ComputeMode(ctx, gpu(0))
		if err != nil || got != mode {
			t.Errorf("ComputeMode = %q, %v, want %q", got, err, mode)
		}
	}
	if err := d.SetComputeMode(ctx, gpu(0), "Sometimes"); err == nil {
		t.Error("an unknown mode is accepted")
	}
	faults(t, "nvmlDeviceSetComputeMode@0=*")
	if err := d.SetComputeMode(ctx, gpu(0), hardware.ComputeModeProhibited); err == nil {
		t.Error("a success without effect is believed")
	}
}
