package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
)

// mig reads what a GPU can be partitioned into; nil if it cannot be. Without the
// right to read that, a GPU whose mode is off can still be handed out whole, for
// the reason in limited.
func (s *session) mig(dev nvml.Device, g hardware.GPU) (_ *hardware.MIG, limited, _ error) {
	if s.noMIG != "" {
		return nil, nil, nil
	}
	current, _, ret := dev.GetMigMode()
	if unavailable(ret) {
		return nil, nil, nil
	}
	if err := failure("nvmlDeviceGetMigMode", g.ID().String(), ret); err != nil {
		return nil, nil, err
	}
	enabled := current == nvml.DEVICE_MIG_ENABLE
	profiles, err := s.profiles(dev, g)
	if errors.Is(err, hardware.ErrNoPermission) && !enabled {
		return nil, err, nil
	}
	if err != nil || len(profiles) == 0 {
		return nil, nil, err
	}
	return &hardware.MIG{Enabled: enabled, Profiles: profiles}, nil, nil
}

// profiles asks for every enum value. The unversioned call and the placements
// work whether MIG mode is on or off; the versioned ones do not.
func (s *session) profiles(dev nvml.Device, g hardware.GPU) ([]mig.Profile, error) {
	var out []mig.Profile
	for enum := range mig.ProfileCount {
		info, ok, err := profileInfo(dev, g.ID(), enum)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		placements, err := placements(dev, g.ID(), info)
		if err != nil {
			return nil, err
		}
		if len(placements) == 0 {
			continue // nothing could ever be created
		}
		out = append(out, profile(enum, info, placements, g.MemoryMiB))
	}
	return distinct(out), nil
}

func profile(enum int, info nvml.GpuInstanceProfileInfo, at []mig.Placement, totalMiB int64) mig.Profile {
	memory := int64(info.MemorySizeMB)
	return mig.Profile{
		Enum:      enum,
		ID:        int(info.Id),
		Name:      mig.Name(enum, int(info.SliceCount), memory, totalMiB),
		Slices:    int(info.SliceCount),
		MemoryMiB: memory,
		// On A30 NVML reports a wrong count (NVIDIA/mig-parted, pkg/mig/discovery).
		MaxInstances: int(info.InstanceCount),
		Engines: mig.Engines{
			Multiprocessors: int(info.MultiprocessorCount),
			CopyEngines:     int(info.CopyEngineCount),
			Decoders:        int(info.DecoderCount),
			Encoders:        int(info.EncoderCount),
			JPEGEngines:     int(info.JpegCount),
			OFAEngines:      int(info.OfaCount),
		},
		Placements: at,
	}
}

// distinct keeps the first of profiles with the same name, since devices are
// named after it: a variant that package mig does not know would collide with the
// plain profile, which comes first in NVML's enum.
func distinct(profiles []mig.Profile) []mig.Profile {
	var out []mig.Profile
	for _, p := range profiles {
		if !slices.ContainsFunc(out, func(q mig.Profile) bool { return q.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// profileInfo is false where the GPU or the library does not know the enum value.
func profileInfo(dev nvml.Device, gpu hardware.GPUID, enum int) (nvml.GpuInstanceProfileInfo, bool, error) {
	info, ret := dev.GetGpuInstanceProfileInfo(enum)
	if unavailable(ret) || ret == nvml.ERROR_INVALID_ARGUMENT {
		return info, false, nil
	}
	on := fmt.Sprintf("%s, profile %#x", gpu, enum)
	return info, true, failure("nvmlDeviceGetGpuInstanceProfileInfo", on, ret)
}

func placements(dev nvml.Device, gpu hardware.GPUID, info nvml.GpuInstanceProfileInfo) ([]mig.Placement, error) {
	raw, ret := dev.GetGpuInstancePossiblePlacements(&info)
	if unavailable(ret) {
		return nil, nil
	}
	on := fmt.Sprintf("%s, profile ID %d", gpu, info.Id)
	if err := failure("nvmlDeviceGetGpuInstancePossiblePlacements", on, ret); err != nil {
		return nil, err
	}
	var out []mig.Placement
	for _, p := range raw {
		out = append(out, mig.Placement{Start: int(p.Start), Size: int(p.Size)})
	}
	slices.SortFunc(out, func(a, b mig.Placement) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}
