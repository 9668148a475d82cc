package smi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// errNothing is wrapped by what nvidia-smi says when there is nothing to list.
var errNothing = errors.New("not found")

// nothing is a sentence that means errNothing.
type nothing string

func (n nothing) Error() string        { return string(n) }
func (n nothing) Is(target error) bool { return target == errNothing }

// migActions are the options of nvidia-smi mig, all of which list something.
var migActions = map[string]action{
	"-lgip": listProfiles, "--list-gpu-instance-profiles": listProfiles,
	"-lgipp": listPlacements, "--list-gpu-instance-possible-placements": listPlacements,
	"-lgi": listInstances, "--list-gpu-instances": listInstances,
	"-lci": listCompute, "--list-compute-instances": listCompute,
}

const (
	profileLine   = "+-------------------------------------------------------------------------------+\n"
	profileHeader = profileLine + `| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
`
	instanceLine   = "+---------------------------------------------------------+\n"
	instanceHeader = instanceLine + `| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
`
	computeLine   = "+--------------------------------------------------------------------+\n"
	computeHeader = computeLine + `| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
`
)

// profile is a GPU-instance profile that a GPU has.
type profile struct {
	nvml.GpuInstanceProfileInfo
	name string
}

// profiles are those of a GPU, in nvidia-smi's order: the smallest first.
func (g gpu) profiles() ([]profile, error) {
	var out []profile
	for enum := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := g.GetGpuInstanceProfileInfo(enum)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		p := profile{GpuInstanceProfileInfo: info, name: fmt.Sprintf("MIG %dg", info.SliceCount)}
		if v, ret := g.GetGpuInstanceProfileInfoV(enum).V3(); ret == nvml.SUCCESS {
			p.name = chars(v.Name[:])
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b profile) int {
		return cmp.Or(cmp.Compare(a.SliceCount, b.SliceCount), cmp.Compare(a.MemorySizeMB, b.MemorySizeMB), cmp.Compare(a.Id, b.Id))
	})
	return out, nil
}

func chars(in []int8) string {
	var b strings.Builder
	for _, c := range in {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// migGPUs are the wanted GPUs with MIG on.
func (c *client) migGPUs() ([]gpu, error) {
	gpus, err := c.gpus()
	if err != nil {
		return nil, err
	}
	var out []gpu
	for _, g := range gpus {
		current, _, ret := g.GetMigMode()
		if err := known(ret); err != nil {
			return nil, err
		}
		if ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return nil, nothing("No MIG-enabled devices found.")
	}
	return out, nil
}

// eachProfile calls do for every profile of every wanted GPU with MIG on.
func (c *client) eachProfile(do func(gpu, profile) error) error {
	gpus, err := c.migGPUs()
	if err != nil {
		return err
	}
	for _, g := range gpus {
		profiles, err := g.profiles()
		if err != nil {
			return err
		}
		for _, p := range profiles {
			if err := do(g, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func listProfiles(c *client) error {
	var rows strings.Builder
	err := c.eachProfile(func(g gpu, p profile) error {
		free, ret := g.GetGpuInstanceRemainingCapacity(&p.GpuInstanceProfileInfo)
		if ret != nvml.SUCCESS {
			return ret
		}
		fmt.Fprintf(&rows, "| %3d  %-18.18s %3d   %3d/%-3d  %8.2f      %3s   %4d  %4d  %4d   |\n", g.index, p.name, p.Id, free, p.InstanceCount,
			float64(p.MemorySizeMB)/1024, yesNo(p.IsP2pSupported), p.MultiprocessorCount, p.DecoderCount, p.EncoderCount)
		fmt.Fprintf(&rows, "| %58s %4d  %4d  %4d   |\n%s", "", p.CopyEngineCount, p.JpegCount, p.OfaCount, profileLine)
		return nil
	})
	if err == nil {
		c.out.WriteString(profileHeader + rows.String())
	}
	return err
}

func yesNo(v uint32) string {
	if v != 0 {
		return "Yes"
	}
	return "No"
}

func listPlacements(c *client) error {
	return c.eachProfile(func(g gpu, p profile) error {
		placements, ret := g.GetGpuInstancePossiblePlacements(&p.GpuInstanceProfileInfo)
		if ret != nvml.SUCCESS {
			return ret
		}
		var starts []string
		size := uint32(0)
		for _, pl := range placements {
			starts = append(starts, fmt.Sprint(pl.Start))
			size = pl.Size
		}
		word := "Placements:"
		if len(starts) == 1 {
			word = "Placement :"
		}
		fmt.Fprintf(&c.out, "GPU %2d Profile ID %2d %s {%s}:%d\n", g.index, p.Id, word, strings.Join(starts, ","), size)
		return nil
	})
}

// eachInstance calls do for every GPU instance.
func (c *client) eachInstance(do func(gpu, profile, nvml.GpuInstance, nvml.GpuInstanceInfo) error) error {
	return c.eachProfile(func(g gpu, p profile) error {
		instances, ret := g.GetGpuInstances(&p.GpuInstanceProfileInfo)
		if ret != nvml.SUCCESS {
			return ret
		}
		for _, in := range instances {
			info, ret := in.GetInfo()
			if ret != nvml.SUCCESS {
				return ret
			}
			if err := do(g, p, in, info); err != nil {
				return err
			}
		}
		return nil
	})
}

func listInstances(c *client) error {
	var rows strings.Builder
	err := c.eachInstance(func(g gpu, p profile, _ nvml.GpuInstance, info nvml.GpuInstanceInfo) error {
		fmt.Fprintf(&rows, "| %3d  %-19.19s %4d     %4d       %4d:%-4d  |\n%s", g.index, p.name, p.Id, info.Id, info.Placement.Start, info.Placement.Size, instanceLine)
		return nil
	})
	if err == nil && rows.Len() == 0 {
		err = nothing("No GPU instances found: Not Found")
	}
	if err == nil {
		c.out.WriteString(instanceHeader + rows.String())
	}
	return err
}

func listCompute(c *client) error {
	var rows strings.Builder
	err := c.eachInstance(func(g gpu, p profile, in nvml.GpuInstance, info nvml.GpuInstanceInfo) error {
		for enum := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
			cp, ret := in.GetComputeInstanceProfileInfo(enum, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
			if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
				continue
			}
			if ret != nvml.SUCCESS {
				return ret
			}
			if err := listComputeOf(&rows, g, p, in, int(info.Id), cp); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && rows.Len() == 0 {
		err = nothing("No compute instances found: Not Found")
	}
	if err == nil {
		c.out.WriteString(computeHeader + rows.String())
	}
	return err
}

func listComputeOf(rows *strings.Builder, g gpu, p profile, in nvml.GpuInstance, gi int, cp nvml.ComputeInstanceProfileInfo) error {
	computes, ret := in.GetComputeInstances(&cp)
	if ret != nvml.SUCCESS {
		return ret
	}
	name := p.name
	if cp.SliceCount < p.SliceCount {
		name = fmt.Sprintf("MIG %dc.%s", cp.SliceCount, strings.TrimPrefix(p.name, "MIG "))
	}
	for _, ci := range computes {
		info, ret := ci.GetInfo()
		if ret != nvml.SUCCESS {
			return ret
		}
		fmt.Fprintf(rows, "| %3d   %4d       %-17.17s %4d      %4d       %4d:%-4d  |\n%s", g.index, gi, name, cp.Id, info.Id,
			info.Placement.Start, info.Placement.Size, computeLine)
	}
	return nil
}
