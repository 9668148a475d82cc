package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Allocated is one device that a pod's claim got, with what its ResourceSlice
// says about it.
type Allocated struct {
	// PodClaim is the name of the claim in the pod's spec, or extendedClaim, Claim
	// the claim itself.
	PodClaim string
	Claim    *resourceapi.ResourceClaim
	// Request is the request that the device satisfies, without a subrequest.
	Request string
	// Node is the node that has the device.
	Node   string
	Device resourceapi.Device
}

// Attribute is the value of a string attribute of the driver's own, empty if it
// is not published.
func (a Allocated) Attribute(name string) string {
	if v := a.Device.Attributes[resourceapi.QualifiedName(name)].StringValue; v != nil {
		return *v
	}
	return ""
}

// Memory is the device's memory in bytes, 0 if it is not published.
func (a Allocated) Memory() int64 {
	q := a.Device.Capacity["memory"].Value
	return q.Value()
}

// extendedClaim stands for the claim that the scheduler makes for a pod's extended
// resources. No claim in a pod's spec can have that name.
const extendedClaim = "<extended resources>"

// Claims are the pod's claims by their name in the pod's spec, and that of its
// extended resources, if it has any.
func (c *Cluster) Claims(ctx context.Context, pod *corev1.Pod) (map[string]*resourceapi.ResourceClaim, error) {
	claims := map[string]*resourceapi.ResourceClaim{}
	for _, pc := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pc)
		if err != nil {
			return nil, fmt.Errorf("find claim %s of pod %s/%s: %w", pc.Name, pod.Namespace, pod.Name, err)
		}
		if name == nil {
			return nil, fmt.Errorf("claim %s of pod %s/%s: its template made none", pc.Name, pod.Namespace, pod.Name)
		}
		claim, err := c.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get claim %s/%s: %w", pod.Namespace, *name, err)
		}
		claims[pc.Name] = claim
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		claim, err := c.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, extended.ResourceClaimName, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get claim %s/%s of extended resources: %w", pod.Namespace, extended.ResourceClaimName, err)
		}
		claims[extendedClaim] = claim
	}
	return claims, nil
}

// Allocated are the driver's devices that the pod's claims got, in the order of the
// claims' names in the pod and of their results.
func (c *Cluster) Allocated(ctx context.Context, pod *corev1.Pod) ([]Allocated, error) {
	claims, err := c.Claims(ctx, pod)
	if err != nil {
		return nil, err
	}
	published, err := c.Published(ctx)
	if err != nil {
		return nil, err
	}
	var out []Allocated
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		claim := claims[name]
		if claim.Status.Allocation == nil {
			return nil, fmt.Errorf("claim %s/%s has no allocation", claim.Namespace, claim.Name)
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver != DriverName {
				continue
			}
			found, ok := published[DeviceKey{Pool: r.Pool, Device: r.Device}]
			if !ok {
				return nil, fmt.Errorf("device %s of pool %s, allocated to claim %s/%s, is in no ResourceSlice",
					r.Device, r.Pool, claim.Namespace, claim.Name)
			}
			out = append(out, Allocated{
				PodClaim: name, Claim: claim, Request: resourceclaim.BaseRequestRef(r.Request),
				Node: found.Node, Device: found.Device,
			})
		}
	}
	return out, nil
}

// DeviceKey names a device of the driver.
type DeviceKey struct{ Pool, Device string }

// PublishedDevice is a device in a ResourceSlice of a node.
type PublishedDevice struct {
	Node   string
	Device resourceapi.Device
}

// Published are all devices that the driver offers.
func (c *Cluster) Published(ctx context.Context) (map[DeviceKey]PublishedDevice, error) {
	sliceList, err := c.Slices(ctx)
	if err != nil {
		return nil, err
	}
	out := map[DeviceKey]PublishedDevice{}
	for _, s := range sliceList {
		node := ""
		if s.Spec.NodeName != nil {
			node = *s.Spec.NodeName
		}
		for _, d := range s.Spec.Devices {
			out[DeviceKey{Pool: s.Spec.Pool.Name, Device: d.Name}] = PublishedDevice{Node: node, Device: d}
		}
	}
	return out, nil
}

// Slices are the driver's ResourceSlices.
func (c *Cluster) Slices(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
	ours := resourceapi.ResourceSliceSelectorDriver + "=" + DriverName
	list, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: ours})
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices of %s: %w", DriverName, err)
	}
	return list.Items, nil
}
