package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/plan"
)

const (
	driver = "cleave.dev"
	addr   = hardware.PCIAddress("0000:3b:00.0")
	whole  = "gpu-0000-3b-00-0"
	other  = "gpu-0000-86-00-0"
	slice0 = "gpu-0000-3b-00-0-mig-1g-10gb-0"
	slice6 = "gpu-0000-3b-00-0-mig-1g-10gb-6"
	half4  = "gpu-0000-3b-00-0-mig-3g-40gb-4"
	half0  = "gpu-0000-3b-00-0-mig-3g-40gb-0"
	nicA   = "nic-0000-38-00-0"
	nicB   = "nic-0000-83-00-0"
	pairA  = whole + "-" + nicA
	pairB  = other + "-" + nicB
)

// testNode has one GPU that can do MIG and one that cannot.
func testNode() hardware.Node {
	oneG := mig.Profile{Enum: mig.Profile1Slice, ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 7, MemoryMiB: 9984,
		Placements: []mig.Placement{{Start: 0, Size: 1}, {Start: 5, Size: 1}, {Start: 6, Size: 1}}}
	threeG := mig.Profile{Enum: mig.Profile3Slice, ID: 9, Name: "3g.40gb", Slices: 3, MaxInstances: 2, MemoryMiB: 40448,
		Placements: []mig.Placement{{Start: 0, Size: 4}, {Start: 4, Size: 4}}}
	return hardware.Node{GPUs: []hardware.GPU{
		{PCI: addr, UUID: "GPU-a", MIG: &hardware.MIG{Switchable: true, Profiles: []mig.Profile{oneG, threeG}}},
		{PCI: "0000:86:00.0", UUID: "GPU-b"},
	}, NICs: []hardware.NIC{{PCI: "0000:38:00.0"}, {PCI: "0000:83:00.0"}}}
}

// claim is allocated the devices, one request each: "r0", "r1" ...
func claim(uid string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + uid, UID: types.UID(uid)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprintf("r%d", i), Driver: driver, Pool: "node/gpu", Device: d})
	}
	return c
}

func admin(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Status.Allocation.Devices.Results {
		c.Status.Allocation.Devices.Results[i].AdminAccess = ptr.To(true)
	}
	return c
}

// mustPlan is the plan of another claim that holds devices.
func mustPlan(t *testing.T, c *resourceapi.ResourceClaim) plan.Plan {
	t.Helper()
	p, err := plan.New(plan.Input{Claim: c, DriverName: driver, Node: testNode()})
	if err != nil {
		t.Fatalf("plan of the other claim: %v", err)
	}
	return p
}

// divided asks, for the first result, for compute instances: slices, count, slices, ...
func divided(of ...int32) map[int]*v1alpha1.MIGConfig {
	cfg := &v1alpha1.MIGConfig{}
	for i := 0; i < len(of); i += 2 {
		cfg.ComputeInstances = append(cfg.ComputeInstances, v1alpha1.ComputeInstances{Slices: of[i], Count: &of[i+1]})
	}
	return map[int]*v1alpha1.MIGConfig{0: cfg}
}

// existing is a GPU with a 1g instance at slice 6 that no claim made.
func existing(computeInstances int) map[hardware.PCIAddress]plan.GPUState {
	inst := hardware.Instance{ID: 13, ProfileID: 19, Placement: mig.Placement{Start: 6, Size: 1}}
	for i := range computeInstances {
		inst.Compute = append(inst.Compute, hardware.ComputeInstance{ID: i, UUID: fmt.Sprintf("MIG-%d", i)})
	}
	return map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true, Instances: []hardware.Instance{inst}}}
}

func steps(p plan.Plan) string {
	var out []string
	for _, s := range p.Steps {
		text := fmt.Sprintf("%s(%d)", s.Kind, s.Device)
		if s.Slices > 0 {
			text += fmt.Sprintf(":%d", s.Slices)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestNewSteps(t *testing.T) {
	on := map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true}}
	exclusive := map[int]*v1alpha1.GPUConfig{0: {ComputeMode: ptr.To(v1alpha1.ComputeModeExclusiveProcess)}}
	tests := map[string]struct {
		in   plan.Input
		want string
	}{
		"whole GPU":                   {in: plan.Input{Claim: claim("1", whole)}, want: ""},
		"whole GPU in MIG mode":       {in: plan.Input{Claim: claim("1", whole), State: on}, want: "DisableMIG(0)"},
		"whole GPU with compute mode": {in: plan.Input{Claim: claim("1", whole), GPUConfig: exclusive}, want: "SetComputeMode(0)"},
		"slice with MIG off":          {in: plan.Input{Claim: claim("1", slice6)}, want: "EnableMIG(0) CreateGPUInstance(0) CreateComputeInstance(0)"},
		"slice with MIG on":           {in: plan.Input{Claim: claim("1", slice6), State: on}, want: "CreateGPUInstance(0) CreateComputeInstance(0)"},
		"two slices switch MIG on once": {in: plan.Input{Claim: claim("1", slice6, slice0)},
			want: "EnableMIG(0) CreateGPUInstance(0) CreateComputeInstance(0) CreateGPUInstance(1) CreateComputeInstance(1)"},
		"divided slice, the largest first": {
			in:   plan.Input{Claim: claim("1", half4), State: on, MIGConfig: divided(1, 1, 2, 1)},
			want: "CreateGPUInstance(0) CreateComputeInstance(0):2 CreateComputeInstance(0):1",
		},
		"three equal parts": {
			in:   plan.Input{Claim: claim("1", half4), State: on, MIGConfig: divided(1, 3)},
			want: "CreateGPUInstance(0) CreateComputeInstance(0):1 CreateComputeInstance(0):1 CreateComputeInstance(0):1",
		},
		"part of a slice": {
			in:   plan.Input{Claim: claim("1", half4), State: on, MIGConfig: divided(2, 1)},
			want: "CreateGPUInstance(0) CreateComputeInstance(0):2",
		},
		"existing slice as it is": {in: plan.Input{Claim: claim("1", slice6), State: existing(1), ServeExisting: true}, want: ""},
		"slice beside an existing one": {
			in:   plan.Input{Claim: claim("1", slice0), State: existing(1), ServeExisting: true},
			want: "CreateGPUInstance(0) CreateComputeInstance(0)",
		},
		"admin access changes nothing": {in: plan.Input{Claim: admin(claim("1", whole)), State: on, GPUConfig: exclusive}, want: ""},
		"a GPU that cannot do MIG":     {in: plan.Input{Claim: claim("1", other)}, want: ""},
		"no result of this driver":     {in: plan.Input{Claim: claim("1")}, want: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.DriverName, tc.in.Node = driver, testNode()
			got, err := plan.New(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, steps(got)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewRemembersThePriorComputeMode(t *testing.T) {
	got, err := plan.New(plan.Input{
		Claim: claim("1", whole), DriverName: driver, Node: testNode(),
		State:     map[hardware.PCIAddress]plan.GPUState{addr: {ComputeMode: hardware.ComputeModeProhibited}},
		GPUConfig: map[int]*v1alpha1.GPUConfig{0: {ComputeMode: ptr.To(v1alpha1.ComputeModeDefault)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Step{{Kind: plan.SetComputeMode, ComputeMode: hardware.ComputeModeDefault, Prior: hardware.ComputeModeProhibited}}
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestNewWithoutAPriorComputeMode: a GPU in MIG mode has none to be set back.
func TestNewWithoutAPriorComputeMode(t *testing.T) {
	got, err := plan.New(plan.Input{
		Claim: claim("1", whole), DriverName: driver, Node: testNode(),
		State:     map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true}},
		GPUConfig: map[int]*v1alpha1.GPUConfig{0: {ComputeMode: ptr.To(v1alpha1.ComputeModeProhibited)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Step{{Kind: plan.DisableMIG}, {Kind: plan.SetComputeMode, ComputeMode: hardware.ComputeModeProhibited, Prior: hardware.ComputeModeDefault}}
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestNewIgnoresOtherDrivers(t *testing.T) {
	c := claim("1", whole, whole)
	c.Status.Allocation.Devices.Results[0].Driver = "other.example"
	c.Status.Allocation.Devices.Results[0].Device = "nonsense"
	got, err := plan.New(plan.Input{Claim: c, DriverName: driver, Node: testNode()})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Device{{Result: 1, Request: "r1", Pool: "node/gpu", Name: whole, GPU: hardware.GPUID{PCI: addr, UUID: "GPU-a"}}}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// TestNewRefuses has case PREP-03: the scheduler may allocate one device twice,
// and the driver is the last line of defence.
func TestNewRefuses(t *testing.T) {
	foreign := func(id int, start int) map[hardware.PCIAddress]plan.GPUState {
		return map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true, Instances: []hardware.Instance{
			{ID: id, ProfileID: 19, Placement: mig.Placement{Start: start, Size: 1}},
		}}}
	}
	tests := map[string]struct {
		in       plan.Input
		held     *resourceapi.ResourceClaim
		is       error
		mentions string
	}{
		"PREP-03 whole GPU twice":         {in: plan.Input{Claim: claim("1", whole)}, held: claim("2", whole), is: plan.ErrHeld, mentions: "ns/claim-2"},
		"PREP-03 slice on a whole GPU":    {in: plan.Input{Claim: claim("1", slice6)}, held: claim("2", whole), is: plan.ErrHeld, mentions: "ns/claim-2"},
		"PREP-03 whole GPU over a slice":  {in: plan.Input{Claim: claim("1", whole)}, held: claim("2", slice6), is: plan.ErrHeld, mentions: slice6},
		"PREP-03 overlapping slices":      {in: plan.Input{Claim: claim("1", half4)}, held: claim("2", slice6), is: plan.ErrHeld, mentions: slice6},
		"twice in one claim":              {in: plan.Input{Claim: claim("1", slice6, half4)}, is: plan.ErrHeld, mentions: "claim-1"},
		"foreign instance in the way":     {in: plan.Input{Claim: claim("1", half4), State: foreign(13, 6)}, is: plan.ErrForeign, mentions: "GPU instance 13"},
		"foreign instance on a whole GPU": {in: plan.Input{Claim: claim("1", whole), State: foreign(13, 6)}, is: plan.ErrForeign, mentions: "GPU instance 13"},
		"existing slice without a compute instance": {
			in: plan.Input{Claim: claim("1", slice6), State: existing(0), ServeExisting: true}, is: plan.ErrForeign, mentions: "GPU instance 13",
		},
		"over an existing slice": {
			in: plan.Input{Claim: claim("1", half4), State: existing(1), ServeExisting: true}, is: plan.ErrForeign, mentions: "GPU instance 13",
		},
		"existing slice that is held": {
			in: plan.Input{Claim: claim("1", slice6), State: existing(1), ServeExisting: true}, held: claim("2", slice6), is: plan.ErrHeld, mentions: "claim-2",
		},
		"dividing an existing slice": {
			in:       plan.Input{Claim: claim("1", slice6), State: existing(1), ServeExisting: true, MIGConfig: divided(1, 1)},
			mentions: "exists already",
		},
		"more compute slices than there are": {
			in: plan.Input{Claim: claim("1", half4), MIGConfig: divided(2, 2)}, mentions: "4 compute slices in all, and a 3g.40gb slice has 3",
		},
		"unknown GPU":              {in: plan.Input{Claim: claim("1", "gpu-0000-ff-00-0")}, is: hardware.ErrNotFound, mentions: "0000:ff:00.0"},
		"a device of another node": {in: plan.Input{Claim: claim("1", whole), Pools: []string{"other/gpu"}}, is: hardware.ErrNotFound, mentions: "pool node/gpu"},
		"unknown slice":            {in: plan.Input{Claim: claim("1", whole+"-mig-9g-10gb-0")}, is: hardware.ErrNotFound, mentions: "no such MIG slice"},
		"name that is not ours":    {in: plan.Input{Claim: claim("1", "../../etc")}, mentions: "not one of this driver"},
		"admin access to a slice":  {in: plan.Input{Claim: admin(claim("1", slice6))}, mentions: "admin access"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.DriverName, tc.in.Node = driver, testNode()
			if tc.held != nil {
				tc.in.Held = []plan.Plan{mustPlan(t, tc.held)}
			}
			got, err := plan.New(tc.in)
			if err == nil {
				t.Fatalf("got plan %+v, want an error", got)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %q is not %q", err, tc.is)
			}
			if !strings.Contains(err.Error(), tc.mentions) {
				t.Errorf("error %q does not mention %q", err, tc.mentions)
			}
		})
	}
}

func TestNewAccepts(t *testing.T) {
	held := func(c *resourceapi.ResourceClaim) []plan.Plan { return []plan.Plan{mustPlan(t, c)} }
	live := map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true, Instances: []hardware.Instance{
		{ID: 13, ProfileID: 19, Placement: mig.Placement{Start: 6, Size: 1}},
	}}}
	tests := map[string]plan.Input{
		"slice beside another claim's":              {Claim: claim("1", slice0), Held: held(claim("2", slice6)), State: live},
		"slice beside a foreign instance":           {Claim: claim("1", slice0), State: live},
		"admin access to a held GPU":                {Claim: admin(claim("1", whole)), Held: held(claim("2", whole))},
		"GPU that only an admin-access claim holds": {Claim: claim("1", whole), Held: held(admin(claim("2", whole)))},
		"another GPU": {Claim: claim("1", other), Held: held(claim("2", whole))},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			in.DriverName, in.Node = driver, testNode()
			if _, err := plan.New(in); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNewNamesAllProblemsAtOnce(t *testing.T) {
	_, err := plan.New(plan.Input{Claim: claim("1", "nonsense", "gpu-0000-ff-00-0"), DriverName: driver, Node: testNode()})
	for _, part := range []string{"request r0", "nonsense", "request r1", "0000:ff:00.0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not mention %q", err, part)
		}
	}
}

func TestUndo(t *testing.T) {
	p := plan.Plan{Steps: make([]plan.Step, 3)}
	tests := map[string]struct {
		done int
		want []int
	}{
		"nothing recorded, the first may have happened": {done: 0, want: []int{0}},
		"one recorded, the next may have happened":      {done: 1, want: []int{1, 0}},
		"all done": {done: 3, want: []int{2, 1, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, p.Undo(tc.done)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressesOf(t *testing.T) {
	got, err := plan.AddressesOf(claim("1", other, slice6, whole, pairA, nicB), driver)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hardware.PCIAddress{"0000:38:00.0", addr, "0000:83:00.0", "0000:86:00.0"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// TestNewMIGC03: where the mode cannot be changed without a reset, what the present
// mode allows is prepared and nothing else is tried.
func TestNewMIGC03(t *testing.T) {
	on := map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true}}
	tests := map[string]struct {
		claim   *resourceapi.ResourceClaim
		state   map[hardware.PCIAddress]plan.GPUState
		refused bool
	}{
		"slice with MIG on":      {claim: claim("1", slice6), state: on},
		"whole GPU with MIG off": {claim: claim("1", whole)},
		"slice with MIG off":     {claim: claim("1", slice6), refused: true},
		"whole GPU with MIG on":  {claim: claim("1", whole), state: on, refused: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := testNode()
			node.GPUs[0].MIG.Switchable = false
			got, err := plan.New(plan.Input{Claim: tc.claim, DriverName: driver, Node: node, State: tc.state})
			if errors.Is(err, hardware.ErrResetRequired) != tc.refused || !tc.refused && err != nil {
				t.Errorf("got %v, want refused: %v", err, tc.refused)
			}
			if strings.Contains(steps(got), "MIG(") {
				t.Errorf("the mode is changed: %s", steps(got))
			}
		})
	}
}

func TestMade(t *testing.T) {
	p := mustPlan(t, claim("1", slice6, half0))
	p.Steps = append(p.Steps, plan.Step{Kind: plan.CreateComputeInstance, Device: 1})
	results := []plan.Result{
		{}, {GPUInstance: 7}, {GPUInstance: 7, ComputeInstance: 0, UUID: "MIG-a"},
		{GPUInstance: 1}, {GPUInstance: 1, ComputeInstance: 0, UUID: "MIG-b"}, {GPUInstance: 1, ComputeInstance: 1, UUID: "MIG-c"},
	}
	want := plan.Made{GPUInstance: 1, Compute: []hardware.ComputeInstance{{ID: 0, UUID: "MIG-b"}, {ID: 1, UUID: "MIG-c"}}}
	if diff := cmp.Diff(want, p.Made(results, 1)); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plan.Made{GPUInstance: 7}, p.Made(results[:2], 0)); diff != "" {
		t.Errorf("made half-way (-want +got):\n%s", diff)
	}
	served, err := plan.New(plan.Input{Claim: claim("1", slice6), DriverName: driver, Node: testNode(), State: existing(2), ServeExisting: true})
	if err != nil {
		t.Fatal(err)
	}
	want = plan.Made{GPUInstance: 13, Compute: []hardware.ComputeInstance{{ID: 0, UUID: "MIG-0"}, {ID: 1, UUID: "MIG-1"}}}
	if diff := cmp.Diff(want, served.Made(nil, 0)); diff != "" {
		t.Errorf("existing (-want +got):\n%s", diff)
	}
}
