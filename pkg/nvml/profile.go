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

// mig reads what a GPU can be partitioned into; nil if it cannot be. notes say what
// a person should know: without the right to read that, a GPU whose mode is off can
// still be handed out whole; and a change of mode may be pending.
func (s *session) mig(dev nvml.Device, g hardware.GPU) (_ *hardware.MIG, notes []error, _ error) {
	if s.noMIG != "" || s.virtualization(dev) == nvml.GPU_VIRTUALIZATION_MODE_VGPU {
		return nil, nil, nil // a virtual GPU is partitioned by its host
	}
	current, pending, ret := dev.GetMigMode()
	if unavailable(ret) {
		return nil, nil, nil
	}
	if err := failure("nvmlDeviceGetMigMode", g.ID().String(), ret); err != nil {
		return nil, nil, err
	}
	if current != pending {
		notes = append(notes, fmt.Errorf("MIG mode of GPU %s is %s and will be %s after a reset of the GPU (nvidia-smi --gpu-reset) or a reboot; until then the present mode counts",
			g.ID(), modeName(current), modeName(pending)))
	}
	enabled := current == nvml.DEVICE_MIG_ENABLE
	profiles, err := s.profiles(dev, g)
	if errors.Is(err, hardware.ErrNoPermission) && !enabled {
		return nil, append(notes, fmt.Errorf("leave out the MIG slices of GPU %s: %w", g.ID(), err)), nil
	}
	if err != nil || len(profiles) == 0 {
		return nil, notes, err
	}
	return &hardware.MIG{Enabled: enabled, Switchable: s.switchable(dev), Profiles: profiles}, notes, nil
}

func modeName(mode int) string {
	if mode == nvml.DEVICE_MIG_ENABLE {
		return "on"
	}
	return "off"
}

// switchable tells whether MIG mode can be changed without a GPU reset: from Hopper
// on the driver does it at once (MIG User Guide, "Enable MIG Mode"), on Ampere it
// takes a reset, which in a virtual machine may never come. Unknown means no.
func (s *session) switchable(dev nvml.Device) bool {
	if !s.has("nvmlDeviceGetArchitecture") {
		return false
	}
	architecture, ret := dev.GetArchitecture()
	if ret != nvml.SUCCESS || architecture == nvml.DEVICE_ARCH_UNKNOWN || architecture < nvml.DEVICE_ARCH_HOPPER {
		return false
	}
	return s.virtualization(dev) == nvml.GPU_VIRTUALIZATION_MODE_NONE
}

// virtualization is how the GPU came to this machine; "not at all" where the driver
// does not say.
func (s *session) virtualization(dev nvml.Device) nvml.GpuVirtualizationMode {
	if !s.has("nvmlDeviceGetVirtualizationMode") {
		return nvml.GPU_VIRTUALIZATION_MODE_NONE
	}
	mode, ret := dev.GetVirtualizationMode()
	if ret != nvml.SUCCESS {
		return nvml.GPU_VIRTUALIZATION_MODE_NONE
	}
	return mode
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
		out = append(out, profile(g, enum, info, placements))
	}
	return distinct(out), nil
}

func profile(g hardware.GPU, enum int, info nvml.GpuInstanceProfileInfo, at []mig.Placement) mig.Profile {
	memory := int64(info.MemorySizeMB)
	p := mig.Profile{
		Enum:         enum,
		ID:           int(info.Id),
		Name:         mig.Name(enum, int(info.SliceCount), memory, g.MemoryMiB),
		Slices:       int(info.SliceCount),
		MemoryMiB:    memory,
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
	// On A30, an Ampere, NVML has been seen to report a wrong count
	// (NVIDIA/mig-parted, pkg/mig/discovery). It is not needed there: each GPU has
	// one set of extra media engines, and else the placements are the limit.
	switch {
	case p.Media():
		p.MaxInstances = 1
	case g.Architecture == "Ampere":
		p.MaxInstances = p.Disjoint()
	}
	return p
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
