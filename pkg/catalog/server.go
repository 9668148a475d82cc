package catalog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Server is one server with its GPUs and network cards.
type Server struct {
	Name string
	// DriverVersion is the NVIDIA driver's, for example "580.95.05".
	DriverVersion string
	// CUDADriverVersion is 1000*major + 10*minor.
	CUDADriverVersion int
	// NVLinksPerGPU is how many NVLinks each GPU has to the switches that join
	// every GPU with every other; 0 where none are connected.
	NVLinksPerGPU int
	// NVLinkVersion is the generation: 3 is Ampere's, 4 Hopper's, 5 Blackwell's;
	// 0 without NVLinks.
	NVLinkVersion int
	// Fabric is the NVLink fabric with whose manager the GPUs register, so that NVML
	// reports its state (Hopper and newer).
	Fabric Fabric
	// NUMACPUs are the processors of the NUMA nodes, each as the kernel's list
	// (cpulist), for example "0-55,112-167". All nodes that GPUs name are here.
	NUMACPUs map[int]string
	// NodesPerSocket is how many NUMA nodes a socket has; they are numbered socket
	// by socket.
	NodesPerSocket int
	// GPUs are in ascending order of their PCI address, the order of NVML's indices.
	GPUs []ServerGPU
	// NICs are the network cards that can do RDMA, in ascending order of their PCI
	// address.
	NICs []ServerNIC
}

// Fabric is an NVLink fabric as NVML tells of it. The zero value is none.
type Fabric struct {
	// Registered tells that there is one.
	Registered bool `json:"registered"`
	// Rack tells that it joins the servers of a rack, and so has a UUID. Here each
	// server is a rack of its own.
	Rack bool `json:"rack,omitempty"`
	// Clique is the part of the fabric that the GPUs are in.
	Clique uint32 `json:"clique,omitempty"`
}

// ServerGPU is one GPU in its slot.
type ServerGPU struct {
	Model Model
	PCI   hardware.PCIAddress
	// Minor is N of /dev/nvidiaN.
	Minor int
	// ModuleID is the number of the GPU's place on its board, as NVML reports it;
	// 0 if not known.
	ModuleID int
	// NUMANode is -1 when the firmware does not say.
	NUMANode int
	// RootComplex is the directory below /sys/devices, for example "pci0000:15".
	RootComplex string
	// Bridges lead from the root complex to the GPU, outermost first.
	Bridges []hardware.PCIAddress
}

// serverFile is the form of servers/*.yaml.
type serverFile struct {
	Name              string            `json:"name"`
	Sources           map[string]string `json:"sources"`
	DriverVersion     fact[string]      `json:"driverVersion"`
	CUDADriverVersion fact[int]         `json:"cudaDriverVersion"`
	GPUAddresses      provenance        `json:"gpuAddresses"`
	NUMANodes         provenance        `json:"numaNodes"`
	Bridges           provenance        `json:"bridges"`
	// ModuleIDs is where those of the GPUs come from, if they have any.
	ModuleIDs provenance           `json:"moduleIDs"`
	NVLink    fact[nvlinkFile]     `json:"nvlink"`
	Fabric    fact[Fabric]         `json:"fabric"`
	NUMACPUs  fact[map[int]string] `json:"numaCPUs"`
	// NodesPerSocket is 1 where it is left out.
	NodesPerSocket fact[int]       `json:"nodesPerSocket"`
	GPUs           []serverGPUFile `json:"gpus"`
	// NICAddresses and NICPlaces are where those of the NICs come from, if there are
	// any; places are NUMA nodes, root complexes and bridges.
	NICAddresses provenance      `json:"nicAddresses"`
	NICPlaces    provenance      `json:"nicPlaces"`
	NICs         []serverNICFile `json:"nics"`
}

type serverGPUFile struct {
	Model       string   `json:"model"`
	PCI         string   `json:"pci"`
	ModuleID    int      `json:"moduleID,omitempty"`
	NUMANode    *int     `json:"numaNode,omitempty"`
	RootComplex string   `json:"rootComplex"`
	Bridges     []string `json:"bridges"`
}

var rootComplexPattern = regexp.MustCompile(`^pci[0-9a-f]{4}:[0-9a-f]{2}$`)

// LoadServer reads a server and the models in it.
func LoadServer(name string) (Server, []Warning, error) {
	var f serverFile
	if err := load("servers", name, &f); err != nil {
		return Server{}, nil, err
	}
	r, err := newReader("server "+name, f.Sources)
	if err != nil {
		return Server{}, nil, err
	}
	if f.Name != name {
		r.fail("name", "is %q, want the file's name %q", f.Name, name)
	}
	s := Server{
		Name:              f.Name,
		DriverVersion:     need(r, "driverVersion", f.DriverVersion),
		CUDADriverVersion: need(r, "cudaDriverVersion", f.CUDADriverVersion),
	}
	r.from("gpuAddresses", f.GPUAddresses)
	r.from("numaNodes", f.NUMANodes)
	r.from("bridges", f.Bridges)
	if slices.ContainsFunc(f.GPUs, func(g serverGPUFile) bool { return g.ModuleID != 0 }) {
		r.from("moduleIDs", f.ModuleIDs)
	}
	for i, g := range f.GPUs {
		s.GPUs = append(s.GPUs, g.read(r, i))
	}
	f.readBoard(r, &s)
	f.readNICs(r, &s)
	r.finish()
	checkOrder(r, s)
	if err := errors.Join(r.errs...); err != nil {
		return Server{}, nil, fmt.Errorf("load server %s: %w", name, err)
	}
	return s, dedupe(r.warnings), nil
}

func checkOrder(r *reader, s Server) {
	if len(s.GPUs) == 0 {
		r.fail("gpus", "a server needs at least one")
	}
	for i := 1; i < len(s.GPUs); i++ {
		if s.GPUs[i-1].PCI >= s.GPUs[i].PCI {
			r.fail(fmt.Sprintf("gpus[%d].pci", i), "must be in ascending order")
		}
	}
}

func (f serverGPUFile) read(r *reader, i int) ServerGPU {
	field := fmt.Sprintf("gpus[%d]", i)
	m, warnings, err := LoadModel(f.Model)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	r.warnings = append(r.warnings, warnings...)
	g := ServerGPU{Model: m, Minor: i, ModuleID: f.ModuleID, NUMANode: -1, RootComplex: f.RootComplex}
	g.PCI = address(r, field+".pci", f.PCI)
	if f.NUMANode != nil {
		g.NUMANode = *f.NUMANode
	}
	if !rootComplexPattern.MatchString(f.RootComplex) {
		r.fail(field+".rootComplex", "is %q, want pciDDDD:BB", f.RootComplex)
	}
	for j, b := range f.Bridges {
		g.Bridges = append(g.Bridges, address(r, fmt.Sprintf("%s.bridges[%d]", field, j), b))
	}
	return g
}

func address(r *reader, field, s string) hardware.PCIAddress {
	a, err := hardware.ParsePCIAddress(s)
	if err != nil {
		r.fail(field, "%v", err)
	}
	return a
}

func dedupe(in []Warning) []Warning {
	var out []Warning
	seen := map[Warning]bool{}
	for _, w := range in {
		if !seen[w] {
			out = append(out, w)
		}
		seen[w] = true
	}
	return out
}

// UUID is the GPU's UUID in NVML's form: always the same for a seed and an index,
// so that a simulated GPU is the same silicon after a restart. Nodes need seeds
// of their own to have GPUs of their own.
func UUID(seed string, index int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "gpu %d of %s", index, seed))
	return FormatUUID("GPU-", [16]byte(h[:16]))
}

// FormatUUID writes 16 bytes as a version-4 UUID after a prefix.
func FormatUUID(prefix string, b [16]byte) string {
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%s%x-%x-%x-%x-%x", prefix, b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// ClusterUUID is that of the NVLink fabric, made from the seed; zero for one that is
// within the server.
func (s Server) ClusterUUID(seed string) uuid.UUID {
	if !s.Fabric.Rack {
		return uuid.Nil
	}
	h := sha256.Sum256([]byte("fabric of " + seed))
	return uuid.UUID(h[:16])
}

// NVLink is the fabric that the server's GPUs have joined, nil without one.
func (s Server) NVLink(seed string) *hardware.NVLinkFabric {
	if !s.Fabric.Registered {
		return nil
	}
	out := &hardware.NVLinkFabric{Clique: s.Fabric.Clique}
	if s.Fabric.Rack {
		out.Cluster = s.ClusterUUID(seed).String()
	}
	return out
}

// Node is the model that a perfect discovery of the fresh server yields: MIG mode
// off, UUIDs and GUIDs from the server's name as seed.
func (s Server) Node() hardware.Node {
	n := hardware.Node{DriverVersion: s.DriverVersion, CUDADriverVersion: s.CUDADriverVersion, NICs: s.FreshNICs(s.Name)}
	for i, g := range s.GPUs {
		h := hardware.GPU{
			PCI: g.PCI, UUID: UUID(s.Name, i), Minor: g.Minor,
			ProductName: g.Model.ProductName, Brand: g.Model.Brand, Architecture: g.Model.Architecture,
			CUDAComputeCapability: g.Model.ComputeCapability, MemoryMiB: g.Model.MemoryMiB,
			PCIeRoot: g.RootComplex, Bridges: slices.Clone(g.Bridges), NUMANear: s.Near(g.NUMANode), NVLink: s.NVLink(s.Name),
		}
		if g.NUMANode >= 0 {
			numa := g.NUMANode
			h.NUMANode = &numa
		}
		if g.Model.MIG != nil {
			h.MIG = &hardware.MIG{Switchable: !g.Model.MIG.ModeNeedsReset, Profiles: g.Model.MIG.Profiles}
		}
		n.GPUs = append(n.GPUs, h)
	}
	return n
}
