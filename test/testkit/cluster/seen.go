package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleave-dra/cleave/test/testkit/smi"
)

// Seen is a device as the container sees it.
type Seen struct {
	Allocated
	// GPU is the GPU that nvidia-smi lists, or the one that the MIG device is
	// part of, without its MIG devices.
	GPU smi.GPU
	// MIG is nil for a whole GPU, and the first of Parts for a slice that is divided
	// into several compute instances.
	MIG *smi.MIG
	// Parts are all MIG devices of the slice.
	Parts []smi.MIG
	// RDMA are the names in the container's /dev/infiniband; none for a device without
	// a NIC. A NIC alone has no GPU.
	RDMA []string
}

// The values of the attribute type that matter here.
const (
	typeGPU  = "gpu"
	typeMIG  = "mig"
	typeNIC  = "nic"
	typePair = "gpu-nic"
)

// hasGPU tells whether nvidia-smi lists the device.
func (a Allocated) hasGPU() bool { return a.Attribute("type") != typeNIC }

// NIC is the PCI address of the device's NIC, empty for one without.
func (a Allocated) NIC() string {
	switch a.Attribute("type") {
	case typeNIC:
		return a.Attribute("resource.kubernetes.io/pciBusID")
	case typePair:
		return a.Attribute("nicPCIBusID")
	default:
		return ""
	}
}

// ForContainer are the devices of the claims and requests that a container names.
func ForContainer(pod *corev1.Pod, container string, allocated []Allocated) []Allocated {
	var names []corev1.ResourceClaim
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == container {
			names = c.Resources.Claims
		}
	}
	requests := map[string]bool{}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		for _, m := range extended.RequestMappings {
			requests[m.RequestName] = requests[m.RequestName] || m.ContainerName == container
		}
	}
	var out []Allocated
	for _, a := range allocated {
		if a.PodClaim == extendedClaim && requests[a.Request] {
			out = append(out, a)
			continue
		}
		if slices.ContainsFunc(names, func(n corev1.ResourceClaim) bool {
			return n.Name == a.PodClaim && (n.Request == "" || n.Request == a.Request)
		}) {
			out = append(out, a)
		}
	}
	return out
}

// Look asks in the container for its devices and compares them with what was allocated
// to it: nvidia-smi lists the same GPUs, the same MIG slices and no others, and there
// are the verbs nodes of as many NICs.
func (c *Cluster) Look(ctx context.Context, pod *corev1.Pod, container string) ([]Seen, error) {
	allocated, err := c.Allocated(ctx, pod)
	if err != nil {
		return nil, err
	}
	own := ForContainer(pod, container, allocated)
	var listed []smi.GPU
	var out string
	if slices.ContainsFunc(own, Allocated.hasGPU) {
		if out, err = c.Exec(ctx, pod.Namespace, pod.Name, container, "nvidia-smi", "-L"); err != nil {
			return nil, err
		}
		if listed, err = smi.ParseList(out); err != nil {
			return nil, fmt.Errorf("container %s of pod %s/%s: %w", container, pod.Namespace, pod.Name, err)
		}
	}
	seen, err := Match(own, listed)
	if err != nil {
		return nil, fmt.Errorf("container %s of pod %s/%s: %w; nvidia-smi -L says:\n%s", container, pod.Namespace, pod.Name, err, out)
	}
	return seen, c.lookAtNICs(ctx, pod, container, seen)
}

// lookAtNICs fills in the RDMA nodes that the container has.
func (c *Cluster) lookAtNICs(ctx context.Context, pod *corev1.Pod, container string, seen []Seen) error {
	nics := map[string]bool{}
	for _, s := range seen {
		if nic := s.NIC(); nic != "" {
			nics[nic] = true
		}
	}
	if len(nics) == 0 {
		return nil
	}
	out, err := c.Exec(ctx, pod.Namespace, pod.Name, container, "ls", "/dev/infiniband")
	if err != nil {
		return err
	}
	nodes := strings.Fields(out)
	verbs := 0
	for _, n := range nodes {
		if strings.HasPrefix(n, "uverbs") {
			verbs++
		}
	}
	if verbs != len(nics) || !slices.Contains(nodes, "rdma_cm") {
		return fmt.Errorf("container %s of pod %s/%s: want the verbs nodes of %d NICs and rdma_cm in /dev/infiniband, there are %s",
			container, pod.Namespace, pod.Name, len(nics), strings.Join(nodes, " "))
	}
	for i := range seen {
		if seen[i].NIC() != "" {
			seen[i].RDMA = nodes
		}
	}
	return nil
}

// Match finds each allocated device among the listed ones, but for NICs, which are not
// listed. Its error names the devices that are missing and those that should not be there.
func Match(allocated []Allocated, listed []smi.GPU) ([]Seen, error) {
	open := flatten(listed)
	var seen []Seen
	var wrong []string
	for _, a := range allocated {
		if !a.hasGPU() {
			seen = append(seen, Seen{Allocated: a})
			continue
		}
		i := slices.IndexFunc(open, func(s Seen) bool { return matches(a, s) })
		if i < 0 {
			wrong = append(wrong, "does not list "+a.Device.Name)
			continue
		}
		s := open[i]
		s.Allocated = a
		open = slices.Delete(open, i, i+1)
		if s.MIG != nil {
			s.Parts = []smi.MIG{*s.MIG}
			// Of a divided slice all compute instances are listed, one after the other.
			for divided(a, s) && i < len(open) && divided(a, open[i]) {
				s.Parts = append(s.Parts, *open[i].MIG)
				open = slices.Delete(open, i, i+1)
			}
		}
		seen = append(seen, s)
	}
	for _, s := range open {
		wrong = append(wrong, "lists "+s.uuid()+", which was not allocated")
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("nvidia-smi %s", strings.Join(wrong, "; "))
	}
	return seen, nil
}

// flatten makes one entry of each MIG device, and of each GPU that has none.
func flatten(listed []smi.GPU) []Seen {
	var out []Seen
	for _, g := range listed {
		parts := g.MIG
		g.MIG = nil
		if len(parts) == 0 {
			out = append(out, Seen{GPU: g})
		}
		for _, m := range parts {
			out = append(out, Seen{GPU: g, MIG: &m})
		}
	}
	return out
}

// matches tells whether s is the device that the slice describes. A MIG device's
// own UUID is new at every creation, so that only its GPU and profile are known.
func matches(a Allocated, s Seen) bool {
	if s.MIG == nil {
		kind := a.Attribute("type")
		return (kind == typeGPU || kind == typePair) && a.Attribute("uuid") == s.GPU.UUID
	}
	return a.Attribute("type") == typeMIG && a.Attribute("parentUUID") == s.GPU.UUID &&
		(a.Attribute("profile") == s.MIG.Profile || divided(a, s))
}

// divided tells whether s is one of several compute instances of the slice, which
// nvidia-smi lists as 1c.3g.40gb.
func divided(a Allocated, s Seen) bool {
	if s.MIG == nil || a.Attribute("parentUUID") != s.GPU.UUID {
		return false
	}
	compute, profile, found := strings.Cut(s.MIG.Profile, "c.")
	return found && len(compute) == 1 && profile == a.Attribute("profile")
}

func (s Seen) uuid() string {
	if s.MIG != nil {
		return s.MIG.UUID
	}
	return s.GPU.UUID
}
