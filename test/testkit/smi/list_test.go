package smi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseList(t *testing.T) {
	tests := map[string]struct {
		in      string
		want    []GPU
		wantErr bool
	}{
		"nothing": {in: "No devices found.\n"},
		"whole GPUs": {
			in: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5c1f0b52-0a52-4b1e-9c5e-000000000001)\n" +
				"GPU 1: NVIDIA L40S (UUID: GPU-5c1f0b52-0a52-4b1e-9c5e-000000000002)\n",
			want: []GPU{
				{Index: 0, Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-5c1f0b52-0a52-4b1e-9c5e-000000000001"},
				{Index: 1, Name: "NVIDIA L40S", UUID: "GPU-5c1f0b52-0a52-4b1e-9c5e-000000000002"},
			},
		},
		"MIG devices": {
			in: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5c1f0b52-0a52-4b1e-9c5e-000000000001)\n" +
				"  MIG 1g.10gb     Device  0: (UUID: MIG-2f6b2c1e-5a52-5b1e-9c5e-000000000003)\n" +
				"  MIG 1g.10gb+me  Device  1: (UUID: MIG-2f6b2c1e-5a52-5b1e-9c5e-000000000004)\n",
			want: []GPU{{
				Index: 0, Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-5c1f0b52-0a52-4b1e-9c5e-000000000001",
				MIG: []MIG{
					{Index: 0, Profile: "1g.10gb", UUID: "MIG-2f6b2c1e-5a52-5b1e-9c5e-000000000003"},
					{Index: 1, Profile: "1g.10gb+me", UUID: "MIG-2f6b2c1e-5a52-5b1e-9c5e-000000000004"},
				},
			}},
		},
		"MIG device without a GPU": {
			in:      "  MIG 1g.10gb     Device  0: (UUID: MIG-2f6b2c1e-5a52-5b1e-9c5e-000000000003)\n",
			wantErr: true,
		},
		"an error message": {in: "NVIDIA-SMI has failed\n", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseList(tc.in)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error = %v, want one: %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseList (-want +got):\n%s", diff)
			}
		})
	}
}
