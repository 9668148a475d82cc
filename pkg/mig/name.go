package mig

import (
	"fmt"
	"math"
	"strings"
)

// Name is the profile name that nvidia-smi prints, from NVML's figures: the
// number of compute slices, the instance's memory and the GPU's memory, both in
// MiB, and the enum for the variant's suffix.
//
// The gigabytes are those of the marketing size: the instance's share of the
// GPU's memory, rounded up to eighths, of the GPU's size rounded up to GiB. This
// is the rule of NVIDIA's go-nvlib (pkg/nvlib/device, mig_profile.go); the
// versioned NVML calls that report a name fail while MIG mode is off.
func Name(enum, computeSlices int, memoryMiB, totalMiB int64) string {
	gb := 0
	if totalMiB > 0 {
		eighths := math.Ceil(8 * float64(memoryMiB) / float64(totalMiB))
		gb = int(math.Round(eighths / 8 * math.Ceil(float64(totalMiB)/1024)))
	}
	return fmt.Sprintf("%dg.%dgb%s", computeSlices, gb, suffix(enum))
}

// suffix tells variants with the same slices and memory apart.
func suffix(enum int) string {
	switch enum {
	case Profile1SliceRev1, Profile2SliceRev1:
		return "+me"
	case Profile1SliceAllMe, Profile2SliceAllMe:
		return "+me.all"
	case Profile1SliceNoMe, Profile2SliceNoMe:
		return "-me"
	case Profile1SliceGfx, Profile2SliceGfx, Profile3SliceGfx, Profile4SliceGfx:
		return "+gfx"
	}
	return ""
}

// LabelName is a profile's name as part of a device or counter name, which may
// only hold lower-case letters, digits and dashes: "1g-10gb", "1g-10gb-plus-me",
// "1g-24gb-no-me".
func LabelName(profile string) string { return labels.Replace(profile) }

var labels = strings.NewReplacer(".", "-", "+", "-plus-", "-", "-no-")
