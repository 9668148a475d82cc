package main

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// TestManifests: every manifest is read by one scenario, and another image can
// take the place of the built-in one everywhere.
func TestManifests(t *testing.T) {
	want, err := fs.Glob(manifests, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, sc := range scenarios() {
		got = append(got, sc.files...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the scenarios (-want +got):\n%s", diff)
	}
	for _, file := range want {
		t.Run(file, func(t *testing.T) {
			text, err := manifests.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := cluster.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			images := 0
			for _, obj := range objects {
				if err := useImage(obj, "other:1"); err != nil {
					t.Fatal(err)
				}
				out, err := yaml.Marshal(obj.Object)
				if err != nil {
					t.Fatal(err)
				}
				images += strings.Count(string(out), "image: other:1")
			}
			if had := strings.Count(string(text), "image: cleave-base:latest"); images != had || had == 0 {
				t.Errorf("%d of %d images were replaced", images, had)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	tests := map[string]struct {
		only []string
		want []string
		err  string
	}{
		"all": {want: []string{"whole-gpu", "shared-claim", "mig-profile", "mig-memory", "seven-then-one", "compute-instances", "prioritized-list", "extended-resources", "partitioned-beforehand",
			"shared-nic", "gpu-with-nic", "nic-alone", "eight-pairs"}},
		"by name":          {only: []string{"mig-memory"}, want: []string{"mig-memory"}},
		"by number, twice": {only: []string{"5", "1", "whole-gpu"}, want: []string{"whole-gpu", "seven-then-one"}},
		"unknown":          {only: []string{"vgpu"}, err: "--only vgpu: no such scenario"},
		"number too large": {only: []string{"14"}, err: "--only 14: no such scenario"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(scenarios(), tc.only)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, sc := range chosen {
				got = append(got, sc.name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scenarios (-want +got):\n%s", diff)
			}
		})
	}
}
