package nvml_test

import (
	stdcmp "cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/nvml"
)

// fakeGPU is what the fake's GPU with the index i looks like in the model.
func fakeGPU(i int) hardware.GPU {
	g := hardware.GPU{
		PCI: gpu(i).PCI, UUID: gpu(i).UUID, Minor: i + 3, ProductName: "NVIDIA H100 80GB HBM3",
		Brand: "Nvidia", Architecture: "Hopper", CUDAComputeCapability: "9.0", MemoryMiB: 81559,
	}
	p := mig.Profile{ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 7, MemoryMiB: 9984}
	p.Engines = mig.Engines{Multiprocessors: 16, CopyEngines: 1, Decoders: 1, JPEGEngines: 1}
	for start := range 7 {
		p.Placements = append(p.Placements, mig.Placement{Start: start, Size: 1})
	}
	g.MIG = &hardware.MIG{Switchable: true, Profiles: []mig.Profile{p}}
	return g
}

func TestNode(t *testing.T) {
	withoutMIG := func(g hardware.GPU) hardware.GPU { g.MIG = nil; return g }
	withoutMemory := fakeGPU(1)
	withoutMemory.MemoryMiB = 0
	withoutMemory.MIG.Profiles[0].Name = "1g.0gb"
	nameless := fakeGPU(1)
	nameless.Brand, nameless.Architecture, nameless.CUDAComputeCapability = "", "", ""
	nameless.MIG.Switchable = false // who knows
	others := []hardware.GPU{fakeGPU(0), fakeGPU(2)}
	tests := map[string]struct {
		faults  []string
		want    []hardware.GPU
		skipped error  // nil if nothing is left out
		says    string // what is left out, if not the GPU
	}{
		"SYSF-06 the minor is not the index": {want: []hardware.GPU{fakeGPU(0), fakeGPU(1), fakeGPU(2)}},
		"DISC-01 one GPU cannot do MIG": {
			faults: []string{"nvmlDeviceGetMigMode@1=3"},
			want:   []hardware.GPU{fakeGPU(0), withoutMIG(fakeGPU(1)), fakeGPU(2)}},
		"DISC-04 no minor":         {faults: []string{"nvmlDeviceGetMinorNumber@1=999"}, want: others, skipped: errUnnamed},
		"DISC-04 no PCI address":   {faults: []string{"nvmlDeviceGetPciInfo@1=999"}, want: others, skipped: errUnnamed},
		"DISC-04 empty PCI info":   {faults: []string{"nvmlDeviceGetPciInfo@1=*"}, want: others, skipped: errUnnamed},
		"DISC-04 no name":          {faults: []string{"nvmlDeviceGetName@1=999"}, want: others, skipped: errUnnamed},
		"DISC-08 lost, handle":     {faults: []string{"nvmlDeviceGetHandleByIndex@1=15"}, want: others, skipped: hardware.ErrLost},
		"DISC-08 lost, UUID":       {faults: []string{"nvmlDeviceGetUUID@1=15"}, want: others, skipped: hardware.ErrLost},
		"DISC-08 lost, MIG mode":   {faults: []string{"nvmlDeviceGetMigMode@1=15"}, want: others, skipped: hardware.ErrLost},
		"DISC-08 lost, profiles":   {faults: []string{"nvmlDeviceGetGpuInstanceProfileInfo@1=15"}, want: others, skipped: hardware.ErrLost},
		"DISC-08 lost, placements": {faults: []string{"nvmlDeviceGetGpuInstancePossiblePlacements@1=15"}, want: others, skipped: hardware.ErrLost},
		"INST-04 MIG needs a right": {
			faults: []string{"nvmlDeviceGetGpuInstancePossiblePlacements@1=4"}, skipped: hardware.ErrNoPermission, says: "leave out the MIG slices of GPU 0000:11:00.0 (GPU-1)",
			want: []hardware.GPU{fakeGPU(0), withoutMIG(fakeGPU(1)), fakeGPU(2)}},
		"memory unknown": {
			faults: []string{"nvmlDeviceGetMemoryInfo@1=3"},
			want:   []hardware.GPU{fakeGPU(0), withoutMemory, fakeGPU(2)}},
		"names unknown": {
			faults: []string{"nvmlDeviceGetBrand@1=3", "nvmlDeviceGetArchitecture@1=3", "nvmlDeviceGetCudaComputeCapability@1=3"},
			want:   []hardware.GPU{fakeGPU(0), nameless, fakeGPU(2)}},
		"no placements are no MIG": {
			faults: []string{"nvmlDeviceGetGpuInstancePossiblePlacements@1=3"},
			want:   []hardware.GPU{fakeGPU(0), withoutMIG(fakeGPU(1)), fakeGPU(2)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, 3)
			faults(t, tc.faults...)
			node, skipped, err := d.Node(t.Context())
			must(t, err)
			want := hardware.Node{DriverVersion: "580.95.05", CUDADriverVersion: 13000, GPUs: tc.want}
			if diff := cmp.Diff(want, node); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if tc.skipped == nil {
				if len(skipped) > 0 {
					t.Errorf("skipped: %v", skipped)
				}
				return
			}
			says := stdcmp.Or(tc.says, "leave out GPU with index 1")
			if len(skipped) != 1 || !strings.Contains(skipped[0].Error(), says) ||
				tc.skipped != errUnnamed && !errors.Is(skipped[0], tc.skipped) {
				t.Errorf("skipped: %v, want %q and %v", skipped, says, tc.skipped)
			}
		})
	}
}

// INST-04: a GPU that is cut up and cannot be looked into is not handed out whole.
func TestNoPermissionWithMIGOn(t *testing.T) {
	d := migDriver(t)
	faults(t, "nvmlDeviceGetGpuInstancePossiblePlacements@0=4")
	node, skipped, err := d.Node(t.Context())
	must(t, err)
	if len(node.GPUs) != 1 || node.GPUs[0].PCI != gpu(1).PCI || len(skipped) != 1 {
		t.Errorf("GPUs %v, skipped %v", node.GPUs, skipped)
	}
}

// errUnnamed stands for an error without a sentinel.
var errUnnamed = errors.New("any")

// DISC-12: what is there now counts, not what was there at first.
func TestGPUsComeAndGo(t *testing.T) {
	d := newDriver(t, 1)
	for _, n := range []string{"1", "2", "0", "1"} {
		t.Setenv("FAKE_GPUS", n)
		node, _, err := d.Node(t.Context())
		must(t, err)
		if got := len(node.GPUs); got != int(n[0]-'0') {
			t.Errorf("%d GPUs, want %s", got, n)
		}
	}
}

// The driver and its library come and go while the process runs.
func TestDriverComesAndGoes(t *testing.T) {
	root := t.TempDir()
	d := nvml.New(nvml.Config{DriverRoot: root})
	defer d.Close()
	_, _, err := d.Node(t.Context())
	wantErr(t, "no library", err, hardware.ErrDriverUnavailable)
	if !strings.Contains(err.Error(), root) {
		t.Errorf("the error does not say where the library is expected: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(root, "lib64"), 0o755))
	must(t, os.Symlink(fake, filepath.Join(root, "lib64", "libnvidia-ml.so.1")))
	for _, step := range []struct {
		fault string
		want  error
	}{
		{fault: "nvmlInitWithFlags@-1=9", want: hardware.ErrDriverUnavailable},
		{},
		{fault: "nvmlSystemGetDriverVersion@-1=1", want: hardware.ErrDriverUnavailable},
		{fault: "nvmlInitWithFlags@-1=18", want: hardware.ErrDriverUnavailable},
		{},
		{fault: "nvmlDeviceGetCount@-1=9", want: hardware.ErrDriverUnavailable},
		{fault: "nvmlDeviceGetUUID@0=1", want: hardware.ErrDriverUnavailable},
		{},
	} {
		faults(t, step.fault)
		if _, _, err := d.Node(t.Context()); !errors.Is(err, step.want) || (err != nil) != (step.want != nil) {
			t.Errorf("with %q: %v, want %v", step.fault, err, step.want)
		}
	}
}

func TestDriverVersion(t *testing.T) {
	d := newDriver(t, 1)
	got, err := d.DriverVersion(t.Context())
	if err != nil || got != "580.95.05" {
		t.Errorf("DriverVersion = %q, %v", got, err)
	}
}

// DISC-06: a driver that lacks newer calls is used for what it has.
func TestOldLibrary(t *testing.T) {
	if !variant(t, "-DOLD") {
		return
	}
	d := newDriver(t, 1)
	node, skipped, err := d.Node(t.Context())
	must(t, errors.Join(append(skipped, err)...))
	want := fakeGPU(0)
	want.Brand, want.Architecture, want.CUDAComputeCapability = "", "", ""
	want.MIG.Switchable = false // without the architecture nobody knows
	if diff := cmp.Diff(hardware.Node{DriverVersion: "580.95.05", GPUs: []hardware.GPU{want}}, node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	_, err = d.ComputeMode(t.Context(), gpu(0))
	wantErr(t, "ComputeMode", err, hardware.ErrNotSupported)
	wantErr(t, "SetComputeMode", d.SetComputeMode(t.Context(), gpu(0), hardware.ComputeModeDefault), hardware.ErrNotSupported)
}

// DISC-06: without MIG calls all GPUs are whole ones.
func TestLibraryWithoutMIG(t *testing.T) {
	if !variant(t, "-DNO_MIG") {
		return
	}
	d := newDriver(t, 1)
	node, skipped, err := d.Node(t.Context())
	must(t, errors.Join(append(skipped, err)...))
	if len(node.GPUs) != 1 || node.GPUs[0].MIG != nil {
		t.Errorf("GPUs: %+v", node.GPUs)
	}
	list, err := d.Instances(t.Context(), gpu(0))
	if err != nil || len(list) > 0 {
		t.Errorf("Instances = %v, %v", list, err)
	}
	err = d.SetMIGMode(t.Context(), gpu(0), true)
	wantErr(t, "SetMIGMode", err, hardware.ErrNotSupported)
	if !strings.Contains(err.Error(), "nvmlDeviceGetMigMode") {
		t.Errorf("the error does not name what is missing: %v", err)
	}
}

// DISC-06: a driver older than all that have MIG is refused before it can end
// the process.
func TestAncientLibrary(t *testing.T) {
	if !variant(t, "-DANCIENT") {
		return
	}
	_, _, err := newDriver(t, 1).Node(t.Context())
	wantErr(t, "Node", err, hardware.ErrDriverUnavailable)
	if err == nil || !strings.Contains(err.Error(), "nvmlSystemGetDriverVersion") {
		t.Errorf("the error does not name what is missing: %v", err)
	}
}
