package host

import (
	"context"
	"strings"

	"k8s.io/klog/v2"
)

// Watch calls changed after PCI functions, RDMA devices or network interfaces came, went
// or were bound to another driver, as far as the kernel says so, until ctx is done. The
// error is why the kernel cannot be listened to any more.
//
// A process without the host's network hears nothing of network interfaces and of the
// class infiniband, but all of PCI functions and of the nodes of RDMA devices
// (infiniband_verbs, infiniband_mad), which come and go with these. Nobody hears of
// a port whose state or rate changes: that is seen in NICs only.
func (h *Host) Watch(ctx context.Context, changed func()) error {
	logger := klog.FromContext(ctx)
	return h.topology.Uevents(ctx, func(subsystem string) {
		if watched(subsystem) {
			logger.V(4).Info("Hardware came, went or changed", "subsystem", subsystem)
			changed()
		}
	})
}

// watched tells what is looked at again; lost messages may have been about anything.
func watched(subsystem string) bool {
	return subsystem == "" || subsystem == "pci" || subsystem == "net" || strings.HasPrefix(subsystem, "infiniband")
}
