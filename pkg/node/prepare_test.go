package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"
	"tags.cncf.io/container-device-interface/specs-go"
)

// nodesOf reads the device nodes of each device in the claim's CDI file.
func (f *fixture) nodesOf(claim string) map[string][]string {
	f.t.Helper()
	data, err := os.ReadFile(f.path("cdi", "cleave.dev-claim-uid-"+claim+".json"))
	if err != nil {
		f.t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		f.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			out[d.Name] = append(out[d.Name], n.Path)
		}
	}
	return out
}

func TestPrepareWholeGPU(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.whole(0), f.whole(1))
	got := f.mustPrepare(c)
	want := []string{"r0", "r1"}
	for i, d := range got {
		if d.PoolName != pool || len(d.RequestNames) != 1 || d.RequestNames[0] != want[i] {
			t.Errorf("device %d: %v", i, d)
		}
		// The library appends its own to each list, so no two may share an array.
		if own := fmt.Sprintf("cleave.dev/claim=uid-a-%d", i); len(d.CdiDeviceIds) != 2 || d.CdiDeviceIds[0] != own ||
			!strings.Contains(d.CdiDeviceIds[1], want[i]) {
			t.Errorf("device %d: CDI devices %v, want %s and the metadata of %s", i, d.CdiDeviceIds, own, want[i])
		}
	}
	if diff := cmp.Diff(map[string][]string{"uid-a-0": {"/dev/nvidia0"}, "uid-a-1": {"/dev/nvidia1"}}, f.nodesOf("a")); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestPrepareSlices makes slices on demand, each claim with a file of its own
// that names the live instance (CDI-02).
func TestPrepareSlices(t *testing.T) {
	f := newFixture(t, "dgx-h100")
	a := f.claim("a", f.slice(0, "1g.10gb", 6), f.slice(0, "3g.40gb", 0))
	b := f.claim("b", f.slice(3, "7g.80gb", 0))
	f.mustPrepare(a)
	f.mustPrepare(b)
	if diff := cmp.Diff([]string{"0:3g.40gb@0", "0:1g.10gb@6", "3:7g.80gb@0"}, f.instances()); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	for _, claim := range []string{"a", "b"} {
		for device, nodes := range f.nodesOf(claim) {
			if len(nodes) != 3 || !strings.HasPrefix(nodes[1], "/dev/nvidia-caps/nvidia-cap") {
				t.Errorf("device %s: nodes %v, want the GPU's and two capabilities", device, nodes)
			}
		}
	}
	f.mustUnprepare(a)
	if diff := cmp.Diff([]string{"3:7g.80gb@0"}, f.instances()); diff != "" {
		t.Errorf("instances after one claim is gone (-want +got):\n%s", diff)
	}
	f.mustUnprepare(b)
	f.mustBeClean()
}

// TestPrepareAgain has case PREP-01: later calls answer the same and change nothing.
func TestPrepareAgain(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "2g.20gb", 4))
	first := f.mustPrepare(c)
	before := f.hw.State()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			again, err := f.prepare(c)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(first, again, protocmp.Transform()); diff != "" {
				t.Errorf("answer of a later call (-first +later):\n%s", diff)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, f.hw.State()); diff != "" {
		t.Errorf("later calls changed the hardware:\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestPrepareTogether lets eight calls for one new claim race: one instance is made.
func TestPrepareTogether(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := f.prepare(c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]string{"0:1g.10gb@6"}, f.instances()); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestPrepareSideBySide prepares seven slices of one GPU in seven claims at once.
func TestPrepareSideBySide(t *testing.T) {
	f := newFixture(t, "mixed")
	var wg sync.WaitGroup
	for start := range 7 {
		c := f.claim(string(rune('a'+start)), f.slice(0, "1g.10gb", start))
		wg.Go(func() {
			if _, err := f.prepare(c); err != nil {
				t.Error(err)
			}
			if err := f.unprepare(c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.mustBeClean()
}

// TestPrepareConflict has case PREP-03: the second claim is refused with the name
// of the holder, and gets the device when that is gone.
func TestPrepareConflict(t *testing.T) {
	f := newFixture(t, "mixed")
	tests := map[string]struct{ first, second string }{
		"same GPU":           {f.whole(0), f.whole(0)},
		"same slice":         {f.slice(0, "1g.10gb", 6), f.slice(0, "1g.10gb", 6)},
		"overlapping slices": {f.slice(0, "1g.10gb", 6), f.slice(0, "3g.40gb", 4)},
		"slice on a whole":   {f.whole(0), f.slice(0, "1g.10gb", 0)},
		"whole over a slice": {f.slice(0, "1g.10gb", 0), f.whole(0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := f.claim("a", tc.first), f.claim("b", tc.second)
			f.mustPrepare(a)
			f.mustRefuse(b, "ns/a", tc.first)
			f.mustUnprepare(a)
			f.mustPrepare(b)
			f.mustUnprepare(b)
			f.mustBeClean()
		})
	}
}

// TestPrepareForeign: an instance that no claim made is not touched, and keeps
// its place (MIGD-04).
func TestPrepareForeign(t *testing.T) {
	f := newFixture(t, "mixed")
	g := f.hw.Server.Node().GPUs[0]
	other := nvmlDriver(f)
	defer other.Close()
	if err := other.SetMIGMode(t.Context(), g.ID(), true); err != nil {
		t.Fatal(err)
	}
	inst, err := other.CreateGPUInstance(t.Context(), g.ID(), 0, placementAt(6))
	if err != nil {
		t.Fatal(err)
	}
	f.mustRefuse(f.claim("a", f.slice(0, "3g.40gb", 4)), "no claim made", g.UUID)
	f.mustRefuse(f.claim("b", f.whole(0)), "no claim made")
	beside := f.claim("c", f.slice(0, "3g.40gb", 0))
	f.mustPrepare(beside)
	f.mustUnprepare(beside)
	if diff := cmp.Diff([]string{"0:1g.10gb@6"}, f.instances()); diff != "" {
		t.Errorf("the foreign instance (-want +got):\n%s", diff)
	}
	if err := other.DestroyGPUInstance(t.Context(), g.ID(), inst.ID); err != nil {
		t.Fatal(err)
	}
	f.mustBeClean()
}

// TestUnprepareUnknown has case PREP-11.
func TestUnprepareUnknown(t *testing.T) {
	f := newFixture(t, "mixed")
	known, done := f.claim("known", f.whole(0)), f.claim("done", f.whole(1))
	f.mustPrepare(known)
	f.mustPrepare(done)
	f.mustUnprepare(done)
	var refs []*drapb.Claim
	for _, c := range []string{"known", "done", "unknown"} {
		refs = append(refs, &drapb.Claim{Namespace: "ns", Name: c, Uid: "uid-" + c})
	}
	resp, err := f.kubelet.NodeUnprepareResources(t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: refs})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refs {
		if got, ok := resp.Claims[r.Uid]; !ok || got.Error != "" {
			t.Errorf("claim %s: %v", r.Name, got)
		}
	}
	f.mustBeClean()
}

// TestPrepareMissingDevice has case PREP-12: the error names the device, others
// go on, and unprepare works.
func TestPrepareMissingDevice(t *testing.T) {
	f := newFixture(t, "mixed")
	gone := f.claim("gone", "gpu-0000-fe-00-0")
	f.mustRefuse(gone, "gpu-0000-fe-00-0", "r0")
	f.mustRefuse(f.claim("nonsense", "../../etc/passwd"), "../../etc/passwd")
	good := f.claim("good", f.whole(0))
	f.mustPrepare(good)
	f.mustUnprepare(good)
	f.mustUnprepare(gone)
	f.mustBeClean()
}

func TestPrepareConfig(t *testing.T) {
	f := newFixture(t, "mixed")
	const config = `{"apiVersion":"cleave.dev/v1alpha1","kind":"GPUConfig",`
	// CONF-03: what Prepare changed is restored.
	c := f.configured("a", config+`"computeMode":"ExclusiveProcess"}`, f.whole(0))
	f.mustPrepare(c)
	if got := f.hw.State().GPUs[0].ComputeMode; got != nvml.COMPUTEMODE_EXCLUSIVE_PROCESS {
		t.Errorf("compute mode of a prepared claim: %v", got)
	}
	f.mustUnprepare(c)
	if got := f.hw.State().GPUs[0].ComputeMode; got != nvml.COMPUTEMODE_DEFAULT {
		t.Errorf("compute mode afterwards: %v", got)
	}
	f.mustRefuse(f.configured("b", config+`"computeMod":"Default"}`, f.whole(0)), "computeMod", "config[0]")
	f.mustRefuse(f.configured("c", config+`"computeMode":"Turbo"}`, f.whole(0)), "computeMode", "Turbo", "ExclusiveProcess")

	// WEBH-05: admin access changes nothing.
	admin := f.configured("d", config+`"computeMode":"Prohibited"}`, f.whole(0))
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	f.mustRefuse(f.create(admin), "admin access")
	f.mustBeClean()
}

// TestPrepareAdmin: admin access shares a held GPU and takes nothing with it.
func TestPrepareAdmin(t *testing.T) {
	f := newFixture(t, "mixed")
	owner := f.claim("owner", f.whole(0))
	f.mustPrepare(owner)
	admin := f.claim("admin", f.whole(0))
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	f.create(admin)
	f.mustPrepare(admin)
	before := f.hw.State()
	f.mustUnprepare(admin)
	if diff := cmp.Diff(before, f.hw.State()); diff != "" {
		t.Errorf("the admin claim's end changed the hardware:\n%s", diff)
	}
	if len(f.nodesOf("owner")) != 1 {
		t.Error("the owner's CDI file is gone")
	}
	f.mustUnprepare(owner)
	f.mustBeClean()
}

// TestPrepareWithoutCDIDirectory has case PREP-09: a failure after the hardware
// step takes everything back, and a retry works.
func TestPrepareWithoutCDIDirectory(t *testing.T) {
	f := newFixture(t, "mixed")
	if err := os.RemoveAll(f.path("cdi")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path("cdi"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustRefuse(c, filepath.Base(f.path("cdi")))
	if got := f.instances(); len(got) > 0 {
		t.Errorf("instances after a failure: %v", got)
	}
	if err := os.Remove(f.path("cdi")); err != nil {
		t.Fatal(err)
	}
	f.mustPrepare(c)
	f.mustUnprepare(c)
	other := f.claim("b", f.slice(0, "7g.80gb", 0))
	f.mustPrepare(other)
	f.mustUnprepare(other)
	f.mustBeClean()
}

// TestPrepareRestoresCDI: a deleted file is written again.
func TestPrepareRestoresCDI(t *testing.T) {
	f := newFixture(t, "mixed")
	c := f.claim("a", f.slice(0, "1g.10gb", 6))
	f.mustPrepare(c)
	before := f.nodesOf("a")
	if err := os.Remove(f.path("cdi", "cleave.dev-claim-uid-a.json")); err != nil {
		t.Fatal(err)
	}
	f.mustPrepare(c)
	if diff := cmp.Diff(before, f.nodesOf("a")); diff != "" {
		t.Errorf("device nodes (-before +after):\n%s", diff)
	}
	f.mustUnprepare(c)
	f.mustBeClean()
}
