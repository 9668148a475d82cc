package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/plan"
)

const (
	gpuA = hardware.PCIAddress("0000:3b:00.0")
	gpuB = hardware.PCIAddress("0000:d8:00.0")
	gpuC = hardware.PCIAddress("0000:e1:00.0")

	uid1 = "7f3d1c52-90a1-4d3e-8a53-0f2f5d1a0001"
	uid2 = "7f3d1c52-90a1-4d3e-8a53-0f2f5d1a0002"
	uid3 = "7f3d1c52-90a1-4d3e-8a53-0f2f5d1a0003"
)

// migPlan makes a 1g slice on each GPU: two steps a GPU.
func migPlan(uid string, gpus ...hardware.PCIAddress) plan.Plan {
	p := plan.Plan{Claim: plan.Claim{Namespace: "team", Name: "claim-" + uid, UID: uid}}
	for i, gpu := range gpus {
		p.Devices = append(p.Devices, plan.Device{
			Result: i, Request: fmt.Sprintf("r%d", i), Pool: "node-1/gpu", Name: "gpu-mig-1g-10gb-6",
			GPU: hardware.GPUID{PCI: gpu, UUID: "GPU-" + string(gpu)},
			MIG: &plan.Slice{ProfileID: 19, Name: "1g.10gb", Placement: mig.Placement{Start: 6, Size: 1}},
		})
		p.Steps = append(p.Steps,
			plan.Step{Kind: plan.CreateGPUInstance, Device: i},
			plan.Step{Kind: plan.CreateComputeInstance, Device: i})
	}
	return p
}

func result(step int) plan.Result {
	return plan.Result{GPUInstance: 7 + step, UUID: fmt.Sprintf("MIG-%d", step)}
}

func prepared(p plan.Plan) []PreparedDevice {
	var devices []PreparedDevice
	product := "NVIDIA H100 80GB HBM3"
	for _, d := range p.Devices {
		devices = append(devices, PreparedDevice{
			Requests: []string{d.Request}, Pool: d.Pool, Device: d.Name,
			CDIDevices: []string{fmt.Sprintf("cleave.dev/claim=%s-%d", p.Claim.UID, d.Result)},
			Attributes: map[string]resourceapi.DeviceAttribute{"productName": {StringValue: &product}},
		})
	}
	return devices
}

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// finish takes a claim all the way.
func finish(t testing.TB, j *Journal, p plan.Plan) {
	t.Helper()
	if err := j.Begin(p); err != nil {
		t.Fatal(err)
	}
	for i := range p.Steps {
		if err := j.RecordResult(p.Claim.UID, i, result(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Finish(p.Claim.UID, prepared(p)); err != nil {
		t.Fatal(err)
	}
}

func finished(p plan.Plan) Record {
	rec := Record{State: Finished, Plan: p, Prepared: prepared(p)}
	for i := range p.Steps {
		rec.Results = append(rec.Results, result(i))
	}
	return rec
}

func uidsOf(records []Record) []string {
	uids := []string{}
	for _, r := range records {
		uids = append(uids, r.Plan.Claim.UID)
	}
	return uids
}

// files lists every path under dir, relative, directories with a slash.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if !d.IsDir() && rel != "journal.lock" {
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestLifeOfAClaim(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	p := migPlan(uid1, gpuA, gpuB)
	want := Record{State: Begun, Plan: p}
	expect := func() {
		t.Helper()
		for _, reader := range []*Journal{j, open(t, dir)} {
			got, found, err := reader.Lookup(uid1)
			if err != nil || !found {
				t.Fatalf("Lookup: found %v, error %v", found, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("record (-want +got):\n%s", diff)
			}
			for gpu, uids := range map[hardware.PCIAddress][]string{gpuA: {uid1}, gpuB: {uid1}, gpuC: {}} {
				held, err := reader.Held(gpu)
				if diff := cmp.Diff(uids, uidsOf(held)); err != nil || diff != "" {
					t.Fatalf("Held(%s): error %v (-want +got):\n%s", gpu, err, diff)
				}
			}
		}
	}
	if _, found, err := j.Lookup(uid1); found || err != nil {
		t.Fatalf("Lookup of an unknown claim: found %v, error %v", found, err)
	}
	if err := j.Begin(p); err != nil {
		t.Fatal(err)
	}
	expect()
	for i := range p.Steps {
		if err := j.RecordResult(uid1, i, result(i)); err != nil {
			t.Fatal(err)
		}
		want.Results = append(want.Results, result(i))
		expect()
	}
	if err := j.Finish(uid1, prepared(p)); err != nil {
		t.Fatal(err)
	}
	want.State, want.Prepared = Finished, prepared(p)
	expect()
	for range 2 {
		if err := j.Remove(uid1); err != nil {
			t.Fatal(err)
		}
		if left := files(t, dir); len(left) != 0 {
			t.Fatalf("left after Remove: %q", left)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := map[string]struct {
		call func(*Journal) error
		want error
	}{
		"begin twice":          {func(j *Journal) error { return j.Begin(migPlan(uid1, gpuB)) }, ErrExists},
		"result of no claim":   {func(j *Journal) error { return j.RecordResult(uid3, 0, plan.Result{}) }, ErrNotBegun},
		"finish of no claim":   {func(j *Journal) error { return j.Finish(uid3, nil) }, ErrNotBegun},
		"result twice":         {func(j *Journal) error { return j.RecordResult(uid1, 0, plan.Result{}) }, nil},
		"result ahead":         {func(j *Journal) error { return j.RecordResult(uid1, 2, plan.Result{}) }, nil},
		"negative step":        {func(j *Journal) error { return j.RecordResult(uid1, -1, plan.Result{}) }, nil},
		"finish too early":     {func(j *Journal) error { return j.Finish(uid1, nil) }, nil},
		"result when finished": {func(j *Journal) error { return j.RecordResult(uid2, 2, plan.Result{}) }, nil},
		"finish twice":         {func(j *Journal) error { return j.Finish(uid2, nil) }, nil},
		"address of no form":   {func(j *Journal) error { return j.Begin(migPlan(uid3, "../../etc")) }, nil},
		"address in capitals":  {func(j *Journal) error { return j.Begin(migPlan(uid3, "0000:3B:00.0")) }, nil},
		"step without device": {func(j *Journal) error {
			p := migPlan(uid3, gpuC)
			p.Steps[1].Device = 1
			return j.Begin(p)
		}, nil},
		"held by a path": {func(j *Journal) error { _, err := j.Held("../claims"); return err }, nil},
	}
	for _, uid := range []string{"", ".", "..", "../x", "a/b", "/etc/passwd", "a.json", ".tmp-1", "-a", "a\x00b", "a\n", string(make([]byte, 5000))} {
		tests[fmt.Sprintf("UID %.20q", uid)] = struct {
			call func(*Journal) error
			want error
		}{func(j *Journal) error {
			_, _, err := j.Lookup(uid)
			for _, err := range []error{err, j.Begin(migPlan(uid, gpuC)), j.RecordResult(uid, 0, plan.Result{}), j.Finish(uid, nil), j.Remove(uid)} {
				if !errors.Is(err, ErrInvalidUID) {
					return fmt.Errorf("want ErrInvalidUID, got %v", err)
				}
			}
			return err
		}, ErrInvalidUID}
	}
	dir := t.TempDir()
	j := open(t, dir)
	if err := j.Begin(migPlan(uid1, gpuA)); err != nil {
		t.Fatal(err)
	}
	if err := j.RecordResult(uid1, 0, result(0)); err != nil {
		t.Fatal(err)
	}
	finish(t, j, migPlan(uid2, gpuB))
	before := contents(t, dir)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := tc.call(j)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("a refused call changed files (-before +after):\n%s", diff)
			}
		})
	}
}

// contents reads every file under dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range files(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(data)
	}
	return all
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	finish(t, open(t, dir), migPlan(uid1, gpuA))
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s: others can read it", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
