package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

// part marks all results as parts of shared devices.
func part(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Status.Allocation.Devices.Results {
		c.Status.Allocation.Devices.Results[i].ShareID = ptr.To(types.UID("share"))
	}
	return c
}

// TestNewNICs: nothing is done to a NIC, and a pair is made ready as its GPU is.
func TestNewNICs(t *testing.T) {
	on := map[hardware.PCIAddress]plan.GPUState{addr: {MIGEnabled: true}}
	rdma := map[int]*v1alpha1.RDMAConfig{0: {ISSM: true, NCCL: true}}
	gpu := hardware.GPUID{PCI: addr, UUID: "GPU-a"}
	tests := map[string]struct {
		in    plan.Input
		want  plan.Device
		steps string
	}{
		"NIC": {in: plan.Input{Claim: claim("1", nicA)}, want: plan.Device{Name: nicA, NIC: &plan.NIC{PCI: "0000:38:00.0"}}},
		"part of a NIC": {in: plan.Input{Claim: part(claim("1", nicA))},
			want: plan.Device{Name: nicA, ShareID: "share", NIC: &plan.NIC{PCI: "0000:38:00.0", Shared: true}}},
		"NIC with configuration": {in: plan.Input{Claim: claim("1", nicA), RDMAConfig: rdma},
			want: plan.Device{Name: nicA, NIC: &plan.NIC{PCI: "0000:38:00.0", ISSM: true, NCCL: true}}},
		"NIC with admin access": {in: plan.Input{Claim: admin(claim("1", nicA))},
			want: plan.Device{Name: nicA, Admin: true, NIC: &plan.NIC{PCI: "0000:38:00.0"}}},
		"pair": {in: plan.Input{Claim: claim("1", pairA), State: on}, steps: "DisableMIG(0)",
			want: plan.Device{Name: pairA, GPU: gpu, NIC: &plan.NIC{PCI: "0000:38:00.0"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.DriverName, tc.in.Node = driver, testNode()
			got, err := plan.New(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Request, tc.want.Pool = "r0", "node/gpu"
			if diff := cmp.Diff([]plan.Device{tc.want}, got.Devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.steps, steps(got)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewNICConflictsPREP03: a GPU or a NIC is never given to two claims, whether
// alone or in a pair, except parts of one NIC and admin access.
func TestNewNICConflictsPREP03(t *testing.T) {
	tests := map[string]struct {
		held, claim *resourceapi.ResourceClaim
		refused     bool
	}{
		"NIC twice":               {held: claim("1", nicA), claim: claim("2", nicA), refused: true},
		"other NIC":               {held: claim("1", nicA), claim: claim("2", nicB)},
		"NIC in a pair":           {held: claim("1", nicA), claim: claim("2", pairA), refused: true},
		"NIC of a pair":           {held: claim("1", pairA), claim: claim("2", nicA), refused: true},
		"GPU of a pair":           {held: claim("1", pairA), claim: claim("2", whole), refused: true},
		"slice of a pair's GPU":   {held: claim("1", pairA), claim: claim("2", slice6), refused: true},
		"pair over a slice":       {held: claim("1", slice6), claim: claim("2", pairA), refused: true},
		"pair twice":              {held: claim("1", pairA), claim: claim("2", pairA), refused: true},
		"pair with the same NIC":  {held: claim("1", other+"-"+nicA), claim: claim("2", pairA), refused: true},
		"pair with the same GPU":  {held: claim("1", whole+"-"+nicB), claim: claim("2", pairA), refused: true},
		"pair beside pair":        {held: claim("1", pairB), claim: claim("2", pairA)},
		"part beside part":        {held: part(claim("1", nicA)), claim: part(claim("2", nicA))},
		"all beside part":         {held: part(claim("1", nicA)), claim: claim("2", nicA), refused: true},
		"part beside all":         {held: claim("1", nicA), claim: part(claim("2", nicA)), refused: true},
		"admin beside NIC":        {held: claim("1", nicA), claim: admin(claim("2", nicA))},
		"pair beside admin":       {held: admin(claim("1", nicA)), claim: claim("2", pairA)},
		"twice in one claim":      {claim: claim("2", pairA, nicA), refused: true},
		"GPU and NIC, one claim":  {claim: claim("2", whole, nicA)},
		"slices beside their NIC": {held: claim("1", slice6), claim: claim("2", slice0, nicA)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := plan.Input{Claim: tc.claim, DriverName: driver, Node: testNode()}
			if tc.held != nil {
				in.Held = []plan.Plan{mustPlan(t, tc.held)}
			}
			_, err := plan.New(in)
			if errors.Is(err, plan.ErrHeld) != tc.refused || !tc.refused && err != nil {
				t.Errorf("got %v, want refused: %v", err, tc.refused)
			}
		})
	}
}

func TestNewUnknownNIC(t *testing.T) {
	for _, name := range []string{"nic-0000-99-00-0", whole + "-nic-0000-99-00-0", "gpu-0000-99-00-0-" + nicA} {
		if _, err := plan.New(plan.Input{Claim: claim("1", name), DriverName: driver, Node: testNode()}); !errors.Is(err, hardware.ErrNotFound) {
			t.Errorf("%s: got %v, want %v", name, err, hardware.ErrNotFound)
		}
	}
}

// TestPlanUPGR01: plans that were stored before there were NICs are read, and written
// again as they were.
func TestPlanUPGR01(t *testing.T) {
	const stored = `{"claim":{"namespace":"ns","name":"c","uid":"1"},"devices":[` +
		`{"result":0,"request":"r0","pool":"node/gpu","name":"gpu-0000-3b-00-0","gpu":{"pci":"0000:3b:00.0","uuid":"GPU-a"}}]}`
	var p plan.Plan
	if err := json.Unmarshal([]byte(stored), &p); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(p)
	if err != nil || string(got) != stored {
		t.Errorf("got %s, %v; want %s", got, err, stored)
	}
	if diff := cmp.Diff([]hardware.PCIAddress{addr}, p.Addresses()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	nic, err := json.Marshal(mustPlan(t, claim("1", nicA)).Devices[0])
	if err != nil || strings.Contains(string(nic), "gpu\":") {
		t.Errorf("a NIC is stored as %s, %v; want it without a GPU", nic, err)
	}
}
