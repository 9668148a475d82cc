package journal

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/plan"
)

var update = flag.Bool("update", false, "write the golden files of the current schema anew")

// golden has one record of each sort that is written.
func golden() map[string]Record {
	begun := Record{State: Begun, Plan: migPlan("golden-mig-begun", gpuA, gpuB)}
	begun.Results = []plan.Result{result(0)}

	id := hardware.GPUID{PCI: gpuA, UUID: "GPU-1"}
	gpu := plan.Plan{
		Claim: plan.Claim{Namespace: "team", Name: "whole", UID: "golden-gpu-finished"},
		Devices: []plan.Device{
			{Result: 1, Request: "a/sub", Pool: "node-1/gpu", Name: "gpu-0000-3b-00-0", GPU: id},
		},
		Steps: []plan.Step{{Kind: plan.DisableMIG}, {Kind: plan.SetComputeMode, ComputeMode: hardware.ComputeModeExclusiveProcess, Prior: hardware.ComputeModeDefault}},
	}
	whole := Record{State: Finished, Plan: gpu, Prepared: prepared(gpu)}
	whole.Results = []plan.Result{{}, {}}
	yes, number, version := true, int64(7), "13.0.0"
	whole.Prepared[0].Attributes = map[string]resourceapi.DeviceAttribute{
		"bool": {BoolValue: &yes}, "int": {IntValue: &number}, "version": {VersionValue: &version},
	}

	admin := plan.Plan{
		Claim:   plan.Claim{Namespace: "monitoring", Name: "admin", UID: "golden-admin-finished"},
		Devices: []plan.Device{{Request: "all", Pool: "node-1/gpu", Name: "gpu-0000-3b-00-0", GPU: id, Admin: true}},
	}
	return map[string]Record{
		"golden-mig-begun":      begun,
		"golden-mig-finished":   finished(migPlan("golden-mig-finished", gpuA)),
		"golden-gpu-finished":   whole,
		"golden-admin-finished": {State: Finished, Plan: admin, Prepared: prepared(admin)},
	}
}

// UPGR-01: files that any release has written can be read for ever. With a change
// of what is written, add a schema's directory or further files; those here stay.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "schema-1")
	for uid, want := range golden() {
		t.Run(uid, func(t *testing.T) {
			path := filepath.Join(dir, uid+fileSuffix)
			if *update {
				data, err := encode(want)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, string(data))
			}
			got, err := readRecord(path, uid)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// UPGR-01 and WEBH-02: fields that this version does not know are tolerated, in
// the first line and in the record, and fields may be missing.
func TestOtherVersionOfTheSchema(t *testing.T) {
	payload := `{"bootID":"x","state":"Begun","plan":{"claim":{"uid":"` + uid1 + `","labels":{}},` +
		`"devices":[{"gpu":{"pci":"0000:3b:00.0"},"config":{"computeMod":"Default"}}],"steps":[{"kind":"SetTimeSlice","device":0,"ms":2}]}}`
	j := open(t, t.TempDir())
	write(t, j.file(uid1), `{"writer":"v9","schema":1,"sha256":"`+checksum([]byte(payload))+`"}`+"\n"+payload)
	j = open(t, j.dir)
	rec, found, err := j.Lookup(uid1)
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	want := Record{State: Begun, Plan: plan.Plan{
		Claim:   plan.Claim{UID: uid1},
		Devices: []plan.Device{{GPU: hardware.GPUID{PCI: gpuA}}},
		Steps:   []plan.Step{{Kind: "SetTimeSlice"}},
	}}
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if held, err := j.Held(gpuA); err != nil || len(held) != 1 {
		t.Errorf("Held: %v, error %v", held, err)
	}
	if err := j.Remove(uid1); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(j.file(uid1)); err == nil {
		t.Error("still there after Remove")
	}
}
