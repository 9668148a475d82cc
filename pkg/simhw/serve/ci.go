package serve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// ciProfileOf reads the profile that a call names by its enum, and the GPU
// instance's, whose engines compute instances share.
func (c *call) ciProfileOf() (catalog.ComputeProfile, mig.Profile, nvml.Return) {
	h, in, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return catalog.ComputeProfile{}, mig.Profile{}, ret
	}
	if c.u32(2) >= nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT {
		return catalog.ComputeProfile{}, mig.Profile{}, nvml.ERROR_INVALID_ARGUMENT
	}
	p, ret := c.engine.ComputeProfile(h, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return catalog.ComputeProfile{}, mig.Profile{}, ret
	}
	gi, ret := c.engine.Profile(h.GPU, in.ProfileEnum)
	return p, gi, ret
}

func ciProfile(c *call) nvml.Return {
	p, gi, ret := c.ciProfileOf()
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 3, &nvml.ComputeInstanceProfileInfo{
		Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(p.MaxInstances),
		MultiprocessorCount: uint32(p.Multiprocessors), SharedCopyEngineCount: uint32(gi.CopyEngines),
		SharedDecoderCount: uint32(gi.Decoders), SharedEncoderCount: uint32(gi.Encoders),
		SharedJpegCount: uint32(gi.JPEGEngines), SharedOfaCount: uint32(gi.OFAEngines),
	})
}

func ciProfileV(c *call) nvml.Return {
	p, gi, ret := c.ciProfileOf()
	if ret != nvml.SUCCESS {
		return ret
	}
	name := profileName(gi.Name, "")
	if p.Slices < gi.Slices {
		name = profileName(gi.Name, fmt.Sprintf("%dc", p.Slices))
	}
	switch asked := c.u32(3); asked {
	case version[nvml.ComputeInstanceProfileInfo_v2](2):
		info := nvml.ComputeInstanceProfileInfo_v2{
			Version: asked, Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(p.MaxInstances),
			MultiprocessorCount: uint32(p.Multiprocessors), SharedCopyEngineCount: uint32(gi.CopyEngines),
			SharedDecoderCount: uint32(gi.Decoders), SharedEncoderCount: uint32(gi.Encoders),
			SharedJpegCount: uint32(gi.JPEGEngines), SharedOfaCount: uint32(gi.OFAEngines),
		}
		chars(info.Name[:], name)
		return writeStruct(c, 3, &info)
	case version[nvml.ComputeInstanceProfileInfo_v3](3):
		info := nvml.ComputeInstanceProfileInfo_v3{
			Version: asked, Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(p.MaxInstances),
			MultiprocessorCount: uint32(p.Multiprocessors), SharedCopyEngineCount: uint32(gi.CopyEngines),
			SharedDecoderCount: uint32(gi.Decoders), SharedEncoderCount: uint32(gi.Encoders),
			SharedJpegCount: uint32(gi.JPEGEngines), SharedOfaCount: uint32(gi.OFAEngines),
		}
		chars(info.Name[:], name)
		return writeStruct(c, 3, &info)
	}
	return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
}

func ciPlacements(c *call) nvml.Return {
	h, _, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	placements, ret := c.engine.ComputePlacements(h, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writePlacements(2, 3, placements)
}

func ciCapacity(c *call) nvml.Return {
	h, _, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	n, ret := c.engine.RemainingCompute(h, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, uint32(n))
}

func createCI(c *call) nvml.Return { return c.createCI(nil, 2) }

func createCIAt(c *call) nvml.Return {
	at, ok := c.placement(2)
	if !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.createCI(&at, 3)
}

func (c *call) createCI(at *mig.Placement, out int) nvml.Return {
	h, _, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.null(out) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	ci, ret := c.engine.CreateComputeInstance(h, int(c.u32(1)), at)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeToken(out, newToken(kindCI, h.GPU, ci.Serial))
}

func listCI(c *call) nvml.Return {
	h, in, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	p, ret := c.engine.ComputeProfileByID(h, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	g := c.engine.Snapshot().GPUs[h.GPU]
	var tokens []token
	for _, ci := range in.Compute {
		if ci.ProfileEnum == p.Enum && c.view.seesCompute(g, in, ci) {
			tokens = append(tokens, newToken(kindCI, h.GPU, ci.Serial))
		}
	}
	return c.writeTokens(2, 3, tokens)
}

func ciByID(c *call) nvml.Return {
	h, in, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	ci, ok := in.ComputeInstance(int(c.u32(1)))
	if !ok || !c.view.seesCompute(c.engine.Snapshot().GPUs[h.GPU], in, *ci) {
		return nvml.ERROR_NOT_FOUND
	}
	return c.writeToken(2, newToken(kindCI, h.GPU, ci.Serial))
}

// computeInstanceInfo has the layout of nvmlComputeInstanceInfo_t.
type computeInstanceInfo struct {
	device      token
	gpuInstance token
	id          uint32
	profileID   uint32
	placement   nvml.ComputeInstancePlacement
}

// ciInfo gives the MIG device as the instance's device: drivers read its UUID
// there, although nvml.h calls it the parent.
func ciInfo(c *call) nvml.Return {
	h, d, ret := c.computeInstance(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &computeInstanceInfo{
		device: newToken(kindMIG, h.GPU, d.Compute.Serial), gpuInstance: newToken(kindGI, h.GPU, d.Instance.Serial),
		id: uint32(d.Compute.ID), profileID: uint32(d.Compute.ProfileID),
		placement: nvml.ComputeInstancePlacement{Start: uint32(d.Compute.Placement.Start), Size: uint32(d.Compute.Placement.Size)},
	})
}

func destroyCI(c *call) nvml.Return {
	h, _, ret := c.computeInstance(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.DestroyComputeInstance(h)
}

func isMIG(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, flag(d.mig != nil))
}

func migGI(c *call) nvml.Return {
	return c.ofMIG(func(d simhw.MIGDevice) uint32 { return uint32(d.Instance.ID) })
}

func migCI(c *call) nvml.Return {
	return c.ofMIG(func(d simhw.MIGDevice) uint32 { return uint32(d.Compute.ID) })
}

func (c *call) ofMIG(value func(simhw.MIGDevice) uint32) nvml.Return {
	d, ret := c.migOnly(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(1, value(*d.mig))
}

// maxMIG is 0 with MIG off or on a GPU without it.
func maxMIG(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !d.state.MIGEnabled {
		return c.writeU32(1, 0)
	}
	return c.writeU32(1, uint32(c.engine.Server().GPUs[d.gpu].Model.MIG.ComputeSlices))
}

// migByIndex counts the MIG devices that this client sees.
func migByIndex(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !d.state.MIGCapable {
		return nvml.ERROR_NOT_SUPPORTED
	}
	devices := c.migDevices(c.engine.Snapshot(), d.gpu)
	if i := c.u32(1); uint64(i) < uint64(len(devices)) {
		return c.writeToken(2, newToken(kindMIG, d.gpu, devices[i].Compute.Serial))
	}
	return nvml.ERROR_NOT_FOUND
}

// migDevices are those that this client finds by index: what it sees, and what a
// fault lets it find although it is gone.
func (c *call) migDevices(s simhw.Snapshot, gpu int) []simhw.MIGDevice {
	devices := append(c.view.migDevices(s, gpu), c.engine.StaleMIGDevices(gpu, c.since)...)
	slices.SortStableFunc(devices, func(a, b simhw.MIGDevice) int {
		return cmp.Or(cmp.Compare(a.Instance.ID, b.Instance.ID), cmp.Compare(a.Compute.ID, b.Compute.ID))
	})
	return devices
}

func migParent(c *call) nvml.Return {
	d, ret := c.migOnly(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeToken(1, gpuToken(d.state))
}

// migAttributes are known of MIG devices only.
func migAttributes(c *call) nvml.Return {
	d, ret := c.device(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	if d.mig == nil {
		return nvml.ERROR_NOT_SUPPORTED
	}
	gi, ret := c.engine.Profile(d.gpu, d.mig.Instance.ProfileEnum)
	if ret != nvml.SUCCESS {
		return ret
	}
	ci, ret := c.engine.ComputeProfile(simhw.Handle{GPU: d.gpu, Serial: d.mig.Instance.Serial}, d.mig.Compute.ProfileEnum)
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &nvml.DeviceAttributes{
		MultiprocessorCount: uint32(ci.Multiprocessors), SharedCopyEngineCount: uint32(gi.CopyEngines),
		SharedDecoderCount: uint32(gi.Decoders), SharedEncoderCount: uint32(gi.Encoders),
		SharedJpegCount: uint32(gi.JPEGEngines), SharedOfaCount: uint32(gi.OFAEngines),
		GpuInstanceSliceCount: uint32(gi.Slices), ComputeInstanceSliceCount: uint32(ci.Slices),
		MemorySizeMB: uint64(gi.MemoryMiB),
	})
}
