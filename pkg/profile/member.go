package profile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// member is one kind of device that a profile asks for, and how many.
type member struct {
	// kind is one of kindGPU, kindMIG, kindNIC and kindPair.
	kind  string
	count int
	// gpu and memory are for all but NICs; the memory is a MIG slice's own.
	gpu    v1alpha1.GPUSelection
	memory *resource.Quantity
	// profile or, where that is empty, computeSlices is for MIG slices.
	profile       string
	computeSlices int
	// nic is for NICs and pairs.
	nic v1alpha1.NICSelection
	// rail asks for NICs that are near GPUs.
	rail bool
}

func memberOf(m v1alpha1.ClaimMembers) member {
	out := member{count: int(ptr.Deref(m.Count, 1))}
	switch {
	case m.MIG != nil:
		out.kind, out.gpu, out.memory = kindMIG, m.MIG.GPUSelection, m.MIG.Memory
		out.profile, out.computeSlices = m.MIG.Profile, int(ptr.Deref(m.MIG.ComputeSlices, 0))
	case m.NIC != nil:
		out.kind, out.nic = kindNIC, m.NIC.NICSelection
	case m.GPUWithNIC != nil:
		out.kind, out.gpu, out.memory = kindPair, m.GPUWithNIC.GPUSelection, m.GPUWithNIC.Memory
		out.nic = m.GPUWithNIC.NICSelection
	default:
		out.kind = kindGPU
		if m.GPU != nil {
			out.gpu, out.memory = m.GPU.GPUSelection, m.GPU.Memory
		}
	}
	return out
}

// as is the member as another kind of device, to split a pair.
func (m member) as(kind string) member {
	m.kind = kind
	return m
}

// selector is the CEL expression for what the DeviceClass leaves open; empty if that is
// nothing. It asks for the driver first and takes every attribute as optional: an error
// in it would stop the pod on every node.
func (m member) selector(driver string, withProfile bool) string {
	attribute := func(name any, otherwise string) string {
		return fmt.Sprintf("device.attributes[%q].?%s.orValue(%q)", driver, name, otherwise)
	}
	atLeast := func(name any, q *resource.Quantity) string {
		whole := q.DeepCopy()
		whole.RoundUp(0)
		return fmt.Sprintf("device.capacity[%q].?%s.orValue(quantity(\"0\")).compareTo(quantity(%q)) >= 0", driver, name, whole.String())
	}
	var all []string
	if m.kind != kindNIC {
		if withProfile && m.profile != "" {
			all = append(all, fmt.Sprintf("%s == %q", attribute(attributeProfile, ""), m.profile))
		}
		if m.gpu.Model != "" {
			// Not optional: the API server knows how long an attribute can be, and so what
			// matching it costs, only of the attribute itself.
			name := fmt.Sprintf("device.attributes[%q].%s", driver, attributeProductName)
			all = append(all, fmt.Sprintf("has(%s) && %s.matches(%q)", name, name, modelPattern(m.gpu.Model)))
		}
		if m.gpu.Architecture != "" {
			all = append(all, fmt.Sprintf("%s == %q", attribute(attributeArchitecture, ""), m.gpu.Architecture))
		}
		if m.memory != nil {
			all = append(all, atLeast(capacityMemory, m.memory))
		}
	}
	if m.kind == kindNIC || m.kind == kindPair {
		if m.nic.LinkLayer != "" {
			all = append(all, fmt.Sprintf("%s == %q", attribute(attributeLinkLayer, ""), m.nic.LinkLayer))
		}
		if m.nic.Bandwidth != nil {
			all = append(all, atLeast(capacityBandwidth, m.nic.Bandwidth))
		}
		if m.rail {
			all = append(all, fmt.Sprintf("device.attributes[%q].?%s.hasValue()", driver, attributeRail))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("device.driver == %q && ", driver) + strings.Join(all, " && ")
}

// modelPattern matches words in a product name, in RE2's syntax, which is Go's and CEL's.
func modelPattern(model string) string {
	return `(?i)(^|[^a-z0-9])` + regexp.QuoteMeta(model) + `($|[^a-z0-9])`
}

// isModel tells whether a GPU is one of those that the member is about, whatever its
// memory.
func (m member) isModel(g GPU) bool {
	if m.gpu.Architecture != "" && m.gpu.Architecture != g.Architecture {
		return false
	}
	return m.gpu.Model == "" || regexp.MustCompile(modelPattern(m.gpu.Model)).MatchString(g.Model)
}

func (m member) isGPU(g GPU) bool { return m.isModel(g) && atLeast(g.Memory, m.memory) }

func (m member) isSlice(s Slice) bool {
	return m.isGPU(s.GPU) && (m.profile == "" || m.profile == s.Profile) && computeSlices(s.Profile) >= m.computeSlices
}

func (m member) isNIC(n NIC) bool {
	return (m.nic.LinkLayer == "" || string(m.nic.LinkLayer) == n.LinkLayer) &&
		atLeast(n.Bandwidth, m.nic.Bandwidth) && (!m.rail || n.Rail)
}

func (m member) isPair(p Pair) bool { return m.isGPU(p.GPU) && m.isNIC(p.NIC) }

func atLeast(n int64, least *resource.Quantity) bool {
	return least == nil || resource.NewQuantity(n, resource.DecimalSI).Cmp(*least) >= 0
}

// stock is the most that can be had of any node of what the member asks for, and the
// most devices that a node has of it.
func (m member) stock(inv Inventory) (n, devices int) {
	for _, node := range inv.Nodes {
		var here, all int
		switch m.kind {
		case kindGPU:
			here, all = count(node.GPUs, m.isGPU)
		case kindMIG:
			here, all = count(node.Slices, m.isSlice)
		case kindNIC:
			here, all = count(node.NICs, m.isNIC)
		case kindPair:
			here, all = count(node.Pairs, m.isPair)
		}
		n, devices = max(n, here), max(devices, all)
	}
	return n, devices
}

func count[K comparable](all []Stock[K], is func(K) bool) (n, devices int) {
	for _, s := range all {
		if is(s.Kind) {
			n, devices = n+s.Count, devices+s.Devices
		}
	}
	return n, devices
}

func sum[K comparable](all []Stock[K], is func(K) bool) int {
	n, _ := count(all, is)
	return n
}

// computeSlices of a profile, 3 of "3g.40gb"; 0 if the name is none.
func computeSlices(profile string) int {
	before, _, ok := strings.Cut(profile, "g.")
	n, err := strconv.Atoi(before)
	if !ok || err != nil {
		return 0
	}
	return n
}

// nominal is the memory after which a profile is named, in bytes if its gigabytes are
// taken for GiB; 0 if the name is none.
func nominal(profile string) int64 {
	_, after, _ := strings.Cut(profile, "g.")
	before, _, ok := strings.Cut(after, "gb")
	n, err := strconv.ParseInt(before, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return n * gib
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// size writes bytes as a person would say them: "19.6Gi".
func size(n int64) string {
	// Rounded down, so that what is said is never more than there is.
	return strconv.FormatFloat(float64(n/(gib/10))/10, 'f', -1, 64) + "Gi"
}
