package node

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// Who else offers GPUs: NVIDIA's DRA driver, and device plugins by the names of
// their extended resources.
const (
	nvidiaDriver      = "gpu.nvidia.com"
	nvidiaGPUResource = "nvidia.com/gpu"
	nvidiaMIGResource = "nvidia.com/mig-"
)

// TaintRival is on every GPU that another driver offers, too, while claims hold devices
// of this one.
const TaintRival = "cleave.dev/offered-by-another-driver"

// rival tells whether another driver or device plugin offers this node's GPUs: two
// that know nothing of each other give the same GPU away twice. The first result is
// the reason to publish nothing, nil if there is none or coexistence is allowed. (What
// claims hold goes on being published, tainted.)
func (p *Plugin) rival(ctx context.Context, node hardware.Node) (refused, err error) {
	if p.cfg.AllowCoexistence || len(node.GPUs) == 0 {
		return nil, nil
	}
	found, err := p.findRival(ctx, node)
	if err != nil || found == "" {
		return nil, err
	}
	refused = fmt.Errorf("%s offers GPUs of this node, too, and one of the two must go: nothing new is handed out (--allow-coexistence overrides this)", found)
	p.once.log(klog.FromContext(ctx), "Another driver offers the same GPUs", refused)
	return refused, nil
}

func (p *Plugin) findRival(ctx context.Context, node hardware.Node) (string, error) {
	all, err := p.live.list()
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.Spec.Driver == p.cfg.DriverName {
			continue
		}
		for _, d := range s.Spec.Devices {
			id := d.Attributes[deviceattribute.StandardDeviceAttributePCIBusID].StringValue
			if s.Spec.Driver == nvidiaDriver || id != nil && offers(node, *id) {
				return fmt.Sprintf("DRA driver %s (device %s)", s.Spec.Driver, d.Name), nil
			}
		}
	}
	// From the API server's cache: this is asked every minute by every node.
	n, err := p.deps.Kube.CoreV1().Nodes().Get(ctx, p.cfg.NodeName, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("read node %s, to see whether a device plugin offers its GPUs: %w", p.cfg.NodeName, err)
	}
	for name, quantity := range n.Status.Allocatable {
		if isNVIDIA(string(name)) && !quantity.IsZero() {
			return fmt.Sprintf("a device plugin (resource %s)", name), nil
		}
	}
	return "", nil
}

// isNVIDIA tells the extended resources of NVIDIA's device plugin: GPUs, those that it
// shares by time ("nvidia.com/gpu.shared"), and MIG devices.
func isNVIDIA(resource string) bool {
	return resource == nvidiaGPUResource || strings.HasPrefix(resource, nvidiaGPUResource+".") || strings.HasPrefix(resource, nvidiaMIGResource)
}

func offers(node hardware.Node, id string) bool {
	addr, err := hardware.ParsePCIAddress(id)
	if err != nil {
		return false
	}
	_, ok := node.GPU(addr)
	return ok
}
