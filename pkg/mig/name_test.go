package mig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNameMIGC09 has the names that nvidia-smi prints (MIG User Guide and
// NVIDIA/mig-parted's default configuration) for the profile sizes that
// nvidia-smi mig -lgip printed on real cards, in GiB, rounded to hundredths. The
// sizes differ a little from driver to driver; the names must not.
func TestNameMIGC09(t *testing.T) {
	tests := map[string]struct {
		totalMiB int64
		want     map[string][]float64 // name to the sizes seen for it
	}{
		"A30 24GB": {totalMiB: 24576, want: map[string][]float64{
			"1g.6gb": {5.81}, "2g.12gb": {11.69}, "4g.24gb": {23.44},
		}},
		"A100 40GB": {totalMiB: 40960, want: map[string][]float64{
			"1g.5gb": {4.75}, "2g.10gb": {9.62}, "3g.20gb": {19.5, 19.62}, "7g.40gb": {39.25, 39.5},
		}},
		"A100 80GB": {totalMiB: 81920, want: map[string][]float64{
			"1g.10gb": {9.5, 9.62}, "2g.20gb": {19.5}, "3g.40gb": {39.25, 39.5}, "7g.80gb": {78.5, 78.75, 79, 79.25},
		}},
		"H100 80GB": {totalMiB: 81559, want: map[string][]float64{
			"1g.10gb": {9.75}, "2g.20gb": {19.62}, "3g.40gb": {39.5}, "7g.80gb": {79.25},
		}},
		"H100 NVL 94GB": {totalMiB: 95830, want: map[string][]float64{
			"1g.12gb": {10.62, 10.75}, "2g.24gb": {21.62}, "3g.47gb": {46.38}, "7g.94gb": {92.62, 93.12},
		}},
		"GH200 96GB": {totalMiB: 97871, want: map[string][]float64{
			"1g.12gb": {11}, "2g.24gb": {23}, "3g.48gb": {46.5}, "7g.96gb": {93},
		}},
		"H200 141GB": {totalMiB: 143771, want: map[string][]float64{
			"1g.18gb": {16}, "2g.35gb": {32.25}, "3g.71gb": {69.5}, "7g.141gb": {140},
		}},
		"B200 180GB": {totalMiB: 183359, want: map[string][]float64{
			"1g.23gb": {20.5, 22}, "2g.45gb": {44.25},
		}},
		"GB200 186GB": {totalMiB: 189471, want: map[string][]float64{
			"1g.23gb": {20, 22}, "2g.47gb": {45.5},
		}},
		"RTX PRO 6000 96GB": {totalMiB: 97887, want: map[string][]float64{
			"1g.24gb": {23.12, 23.62}, "2g.48gb": {46.5, 47.38}, "4g.96gb": {93.38, 95.12},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for want, sizes := range tc.want {
				for _, gib := range sizes {
					got := Name(Profile1Slice, int(want[0]-'0'), int64(gib*1024), tc.totalMiB)
					if got != want {
						t.Errorf("%.2f GiB of %d MiB: got %s, want %s", gib, tc.totalMiB, got, want)
					}
				}
			}
		})
	}
}

// TestNameOfSharesMIGC09 has the names of GPUs for which nobody posted the sizes
// (NVIDIA GPU operator 25.10 release notes; NVIDIA/mig-parted's default
// configuration): whatever the driver leaves of its share, a profile has the name
// of the share. Total memory is as nvidia-smi prints it.
func TestNameOfSharesMIGC09(t *testing.T) {
	tests := map[string]struct {
		totalMiB int64
		want     map[int64]string // eighths of the memory to the name
	}{
		"B300":  {totalMiB: 275040, want: map[int64]string{1: "1g.34gb", 2: "2g.67gb", 4: "3g.135gb", 8: "7g.269gb"}},
		"GB300": {totalMiB: 284208, want: map[int64]string{1: "1g.35gb", 2: "2g.70gb", 4: "3g.139gb", 8: "7g.278gb"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for eighths, want := range tc.want {
				most := tc.totalMiB * eighths / 8
				least := tc.totalMiB*(eighths-1)/8 + 1
				for _, memoryMiB := range []int64{least, (least + most) / 2, most} {
					if got := Name(Profile1Slice, int(want[0]-'0'), memoryMiB, tc.totalMiB); got != want {
						t.Errorf("%d of %d MiB: got %s, want %s", memoryMiB, tc.totalMiB, got, want)
					}
				}
			}
		})
	}
}

func TestNameRounding(t *testing.T) {
	tests := map[string]struct {
		memoryMiB, totalMiB int64
		want                string
	}{
		"exactly an eighth":          {memoryMiB: 10240, totalMiB: 81920, want: "1g.10gb"},
		"one MiB more":               {memoryMiB: 10241, totalMiB: 81920, want: "1g.20gb"},
		"one MiB less":               {memoryMiB: 10239, totalMiB: 81920, want: "1g.10gb"},
		"total just below a GiB":     {memoryMiB: 9984, totalMiB: 81919, want: "1g.10gb"},
		"total just above a GiB":     {memoryMiB: 9984, totalMiB: 81921, want: "1g.10gb"},
		"memory in steps of 12 GiB":  {memoryMiB: 12288, totalMiB: 98304, want: "1g.12gb"},
		"unknown total, not a panic": {memoryMiB: 9984, totalMiB: 0, want: "1g.0gb"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Name(Profile1Slice, 1, tc.memoryMiB, tc.totalMiB); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestNameVariants asks that no two enum values of one size share a name or a
// label, since device names are made of them.
func TestNameVariants(t *testing.T) {
	got := map[string]string{}
	for _, enum := range []int{
		Profile1Slice, Profile1SliceRev1, Profile1SliceGfx, Profile1SliceNoMe, Profile1SliceAllMe,
	} {
		name := Name(enum, 1, 24187, 97887)
		got[name] = LabelName(name)
	}
	want := map[string]string{
		"1g.24gb":        "1g-24gb",
		"1g.24gb+me":     "1g-24gb-plus-me",
		"1g.24gb+gfx":    "1g-24gb-plus-gfx",
		"1g.24gb-me":     "1g-24gb-no-me",
		"1g.24gb+me.all": "1g-24gb-plus-me-all",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names and labels (-want +got):\n%s", diff)
	}
}
