package cluster

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/test/testkit/smi"
)

func TestMatch(t *testing.T) {
	gpu := device("gpu-a", map[string]string{"type": "gpu", "uuid": "GPU-a"})
	slice := device("gpu-a-mig-1g-10gb-6", map[string]string{"type": "mig", "parentUUID": "GPU-a", "profile": "1g.10gb"})
	nic := device("nic-a", map[string]string{"type": "nic"})
	pair := device("gpu-a-nic-a", map[string]string{"type": "gpu-nic", "uuid": "GPU-a"})
	twoSlices := []smi.GPU{{UUID: "GPU-a", MIG: []smi.MIG{{Profile: "1g.10gb", UUID: "MIG-1"}, {Profile: "1g.10gb", UUID: "MIG-2"}}}}
	tests := map[string]struct {
		allocated []Allocated
		listed    []smi.GPU
		want      []string // UUIDs, in the order of allocated
		wantErr   string
	}{
		"whole GPU":          {allocated: []Allocated{gpu}, listed: []smi.GPU{{UUID: "GPU-a"}}, want: []string{"GPU-a"}},
		"a GPU with its NIC": {allocated: []Allocated{pair}, listed: []smi.GPU{{UUID: "GPU-a"}}, want: []string{"GPU-a"}},
		"a NIC alone":        {allocated: []Allocated{nic}, want: []string{""}},
		"a NIC, and a GPU of others": {
			allocated: []Allocated{nic}, listed: []smi.GPU{{UUID: "GPU-a"}}, wantErr: "lists GPU-a, which was not allocated",
		},
		"two equal slices": {allocated: []Allocated{slice, slice}, listed: twoSlices, want: []string{"MIG-1", "MIG-2"}},
		"a divided slice": {
			allocated: []Allocated{slice},
			listed:    []smi.GPU{{UUID: "GPU-a", MIG: []smi.MIG{{Profile: "1c.1g.10gb", UUID: "MIG-1"}, {Profile: "1c.1g.10gb", UUID: "MIG-2"}}}},
			want:      []string{"MIG-1"},
		},
		"part of another slice": {
			allocated: []Allocated{slice},
			listed:    []smi.GPU{{UUID: "GPU-a", MIG: []smi.MIG{{Profile: "1c.1g.10gb", UUID: "MIG-1"}, {Profile: "1c.2g.20gb", UUID: "MIG-2"}}}},
			wantErr:   "lists MIG-2, which was not allocated",
		},
		"one too many": {
			allocated: []Allocated{slice}, listed: twoSlices,
			wantErr: "lists MIG-2, which was not allocated",
		},
		"another GPU": {
			allocated: []Allocated{gpu}, listed: []smi.GPU{{UUID: "GPU-b"}},
			wantErr: "does not list gpu-a; lists GPU-b, which was not allocated",
		},
		"another profile": {
			allocated: []Allocated{slice}, listed: []smi.GPU{{UUID: "GPU-a", MIG: []smi.MIG{{Profile: "2g.20gb", UUID: "MIG-1"}}}},
			wantErr: "does not list gpu-a-mig-1g-10gb-6; lists MIG-1",
		},
		"a slice instead of its GPU": {
			allocated: []Allocated{gpu}, listed: twoSlices,
			wantErr: "does not list gpu-a; lists MIG-1",
		},
		"nothing": {allocated: []Allocated{gpu}, wantErr: "does not list gpu-a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			seen, err := Match(tc.allocated, tc.listed)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range seen {
				got = append(got, s.uuid())
			}
			if strings.Join(got, " ") != strings.Join(tc.want, " ") {
				t.Errorf("UUIDs = %v, want %v", got, tc.want)
			}
		})
	}
}

func device(name string, attributes map[string]string) Allocated {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for k, v := range attributes {
		d.Attributes[resourceapi.QualifiedName(k)] = resourceapi.DeviceAttribute{StringValue: &v}
	}
	return Allocated{Device: d}
}
