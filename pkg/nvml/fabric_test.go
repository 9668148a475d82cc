package nvml_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

const (
	rackUUID = "4C4C4544003057108052B4C04F4D3332"
	noUUID   = "00000000000000000000000000000000"
)

var (
	rack    = &hardware.NVLinkFabric{Cluster: "4c4c4544-0030-5710-8052-b4c04f4d3332", Clique: 32766}
	machine = &hardware.NVLinkFabric{}
)

// nvlink is what the GPU's NVLink fabric is read as.
func nvlink(t *testing.T) *hardware.NVLinkFabric {
	t.Helper()
	node, skipped, err := newDriver(t, 1).Node(t.Context())
	must(t, errors.Join(append(skipped, err)...))
	if len(node.GPUs) != 1 {
		t.Fatalf("%d GPUs, want 1", len(node.GPUs))
	}
	return node.GPUs[0].NVLink
}

func TestNVLink(t *testing.T) {
	const v3, v2, first = "nvmlDeviceGetGpuFabricInfoV/3@0=", "nvmlDeviceGetGpuFabricInfoV/2@0=", "nvmlDeviceGetGpuFabricInfo@0="
	tests := map[string]struct {
		fabric string
		faults []string
		want   *hardware.NVLinkFabric
	}{
		"over a rack":                 {fabric: "3 0 32766 " + rackUUID, want: rack},
		"within the machine":          {fabric: "3 0 0 " + noUUID, want: machine},
		"part of a machine":           {fabric: "3 0 5 " + noUUID, want: &hardware.NVLinkFabric{Clique: 5}},
		"none":                        {fabric: "0 0 0 " + noUUID},
		"not joined yet":              {fabric: "1 0 0 " + noUUID},
		"joining":                     {fabric: "2 0 32766 " + rackUUID},
		"refused":                     {fabric: "3 999 32766 " + rackUUID},
		"second form":                 {fabric: "3 0 32766 " + rackUUID, faults: []string{v3 + "25"}, want: rack},
		"first form":                  {fabric: "3 0 32766 " + rackUUID, faults: []string{v3 + "25", v2 + "25"}, want: rack},
		"first form, not joined yet":  {fabric: "1 0 0 " + noUUID, faults: []string{v3 + "25", v2 + "25"}},
		"a GPU older than the fabric": {fabric: "3 0 0 " + noUUID, faults: []string{v3 + "3", v2 + "3", first + "3"}},
		"nobody can tell":             {fabric: "3 0 0 " + noUUID, faults: []string{v3 + "999", v2 + "999", first + "999"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("FAKE_FABRIC", tc.fabric)
			faults(t, tc.faults...)
			if diff := cmp.Diff(tc.want, nvlink(t)); diff != "" {
				t.Errorf("fabric (-want +got):\n%s", diff)
			}
		})
	}
}

// DISC-06: drivers from before the versioned form have the first one. Those that have
// neither are in TestOldLibrary.
func TestNVLinkFirstForm(t *testing.T) {
	if !variant(t, "-DFIRST_FABRIC") {
		return
	}
	t.Setenv("FAKE_FABRIC", "3 0 32766 "+rackUUID)
	if diff := cmp.Diff(rack, nvlink(t)); diff != "" {
		t.Errorf("fabric (-want +got):\n%s", diff)
	}
}
