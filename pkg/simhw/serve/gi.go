package serve

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

func getMIGMode(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	current, pending, ret := c.engine.MIGMode(d.gpu)
	if ret != nvml.SUCCESS {
		return ret
	}
	if ret := c.writeU32(1, flag(current)); ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, flag(pending))
}

// setMIGMode writes the activation status also when it fails.
func setMIGMode(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.u32(1) > 1 || c.null(2) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	set := c.engine.SetMIGMode
	if c.pends {
		set = c.engine.PendMIGMode
	}
	activation, ret := set(d.gpu, c.u32(1) == 1)
	if w := c.writeU32(2, uint32(activation)); w != nvml.SUCCESS {
		return w
	}
	c.failing = c.outputs
	return ret
}

func giProfile(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	p, ret := c.engine.Profile(d.gpu, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 2, &nvml.GpuInstanceProfileInfo{
		Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(c.engine.ReportedCount(d.gpu, p)),
		MultiprocessorCount: uint32(p.Multiprocessors), CopyEngineCount: uint32(p.CopyEngines),
		DecoderCount: uint32(p.Decoders), EncoderCount: uint32(p.Encoders),
		JpegCount: uint32(p.JPEGEngines), OfaCount: uint32(p.OFAEngines), MemorySizeMB: uint64(p.MemoryMiB),
	})
}

func giProfileV(c *call) nvml.Return {
	return c.versionedProfile(c.engine.Profile)
}

func giProfileByIDV(c *call) nvml.Return {
	return c.versionedProfile(c.engine.ProfileByID)
}

// versionedProfile fails with MIG off, which the plain call does not.
func (c *call) versionedProfile(find func(gpu, key int) (mig.Profile, nvml.Return)) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	p, ret := find(d.gpu, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	if !d.state.MIGEnabled {
		return nvml.ERROR_NOT_SUPPORTED
	}
	switch asked := c.u32(2); asked {
	case version[nvml.GpuInstanceProfileInfo_v2](2):
		info := nvml.GpuInstanceProfileInfo_v2{
			Version: asked, Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(c.engine.ReportedCount(d.gpu, p)),
			MultiprocessorCount: uint32(p.Multiprocessors), CopyEngineCount: uint32(p.CopyEngines),
			DecoderCount: uint32(p.Decoders), EncoderCount: uint32(p.Encoders),
			JpegCount: uint32(p.JPEGEngines), OfaCount: uint32(p.OFAEngines), MemorySizeMB: uint64(p.MemoryMiB),
		}
		chars(info.Name[:], profileName(p.Name, ""))
		return writeStruct(c, 2, &info)
	case version[nvml.GpuInstanceProfileInfo_v3](3):
		info := nvml.GpuInstanceProfileInfo_v3{
			Version: asked, Id: uint32(p.ID), SliceCount: uint32(p.Slices), InstanceCount: uint32(c.engine.ReportedCount(d.gpu, p)),
			MultiprocessorCount: uint32(p.Multiprocessors), CopyEngineCount: uint32(p.CopyEngines),
			DecoderCount: uint32(p.Decoders), EncoderCount: uint32(p.Encoders),
			JpegCount: uint32(p.JPEGEngines), OfaCount: uint32(p.OFAEngines), MemorySizeMB: uint64(p.MemoryMiB),
		}
		chars(info.Name[:], profileName(p.Name, ""))
		return writeStruct(c, 2, &info)
	}
	return nvml.ERROR_ARGUMENT_VERSION_MISMATCH
}

// giPlacements answers whether MIG is on or not.
func giPlacements(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	p, ret := c.engine.ProfileByID(d.gpu, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writePlacements(2, 3, p.Placements)
}

// writePlacements fills an array, which may be NULL, and its count.
func (c *call) writePlacements(array, count int, placements []mig.Placement) nvml.Return {
	if !c.null(array) {
		var b []byte
		for _, p := range placements {
			b = binary.NativeEndian.AppendUint32(b, uint32(p.Start))
			b = binary.NativeEndian.AppendUint32(b, uint32(p.Size))
		}
		if ret := c.write(array, b); ret != nvml.SUCCESS {
			return ret
		}
	}
	return c.writeU32(count, uint32(len(placements)))
}

func giCapacity(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	n, ret := c.engine.RemainingCapacity(d.gpu, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeU32(2, uint32(n))
}

func createGI(c *call) nvml.Return { return c.createGI(nil, 2) }

func createGIAt(c *call) nvml.Return {
	at, ok := c.placement(2)
	if !ok {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return c.createGI(&at, 3)
}

// createGI makes nothing that it could not hand out.
func (c *call) createGI(at *mig.Placement, out int) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.null(out) {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	in, ret := c.engine.CreateGPUInstance(d.gpu, int(c.u32(1)), at)
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.writeToken(out, newToken(kindGI, d.gpu, in.Serial))
}

// placement reads a placement struct.
func (c *call) placement(i int) (mig.Placement, bool) {
	b := c.arguments[i].bytes
	if len(b) < 8 {
		return mig.Placement{}, false
	}
	return mig.Placement{Start: int(binary.NativeEndian.Uint32(b)), Size: int(binary.NativeEndian.Uint32(b[4:]))}, true
}

func listGI(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !d.state.MIGEnabled {
		return nvml.ERROR_NOT_SUPPORTED
	}
	p, ret := c.engine.ProfileByID(d.gpu, int(c.u32(1)))
	if ret != nvml.SUCCESS {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	var tokens []token
	for _, in := range d.state.Instances {
		if in.ProfileEnum == p.Enum && c.view.seesInstance(d.state, in) {
			tokens = append(tokens, newToken(kindGI, d.gpu, in.Serial))
		}
	}
	// Clients make room for as many as the profile says, right or wrong.
	return c.writeTokens(2, 3, tokens[:min(len(tokens), c.engine.ReportedCount(d.gpu, p))])
}

func giByID(c *call) nvml.Return {
	d, ret := c.gpuOnly()
	if ret != nvml.SUCCESS {
		return ret
	}
	if !d.state.MIGEnabled {
		return nvml.ERROR_NOT_SUPPORTED
	}
	in, ok := d.state.Instance(int(c.u32(1)))
	if !ok || !c.view.seesInstance(d.state, *in) {
		return nvml.ERROR_NOT_FOUND
	}
	return c.writeToken(2, newToken(kindGI, d.gpu, in.Serial))
}

// gpuInstanceInfo has the layout of nvmlGpuInstanceInfo_t, whose Go form in
// go-nvml is not exported.
type gpuInstanceInfo struct {
	device    token
	id        uint32
	profileID uint32
	placement nvml.GpuInstancePlacement
}

func giInfo(c *call) nvml.Return {
	h, in, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	return writeStruct(c, 1, &gpuInstanceInfo{
		device: gpuToken(c.engine.Snapshot().GPUs[h.GPU]), id: uint32(in.ID), profileID: uint32(in.ProfileID), placement: placementOf(in),
	})
}

func placementOf(in simhw.InstanceState) nvml.GpuInstancePlacement {
	return nvml.GpuInstancePlacement{Start: uint32(in.Placement.Start), Size: uint32(in.Placement.Size)}
}

func destroyGI(c *call) nvml.Return {
	h, _, ret := c.gpuInstance()
	if ret != nvml.SUCCESS {
		return ret
	}
	return c.engine.DestroyGPUInstance(h)
}
