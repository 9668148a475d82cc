package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clientretry "k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/plan"
)

const (
	// reportEvery keeps a burst of claims from becoming a burst of writes.
	reportEvery = 100 * time.Millisecond
	// reportTries is how often a status that cannot be written is tried again; the
	// next try after a failure waits longer each time, up to a minute.
	reportTries = 10
	// component is who the Events are from.
	component = "cleave-node"
)

// reporter owns corridor (e): after the reply it writes what a claim was given into
// the claim's status, with an Event. It is best effort and never in the way of a
// claim: whoever needs certainty reads the metadata inside the container.
type reporter struct {
	driver, node string
	kube         kubernetes.Interface
	queue        workqueue.TypedRateLimitingInterface[plan.Claim]

	mu      sync.Mutex
	pending map[plan.Claim]report
}

// report is what is to be said of one claim; no devices withdraw what was said.
type report struct {
	devices []resourceapi.AllocatedDeviceStatus
	// layers are the link layers of the devices' NICs, empty for a device without one.
	layers  []string
	summary string
}

func newReporter(driver, node string, kube kubernetes.Interface) *reporter {
	return &reporter{
		driver: driver, node: node, kube: kube, pending: map[plan.Claim]report{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[plan.Claim](time.Second, time.Minute)),
	}
}

// prepared asks for a finished record to be reported; sights is what is known of each
// of its devices' surroundings.
func (r *reporter) prepared(rec journal.Record, sights []sight) {
	out := report{}
	var names []string
	for i, d := range rec.Plan.Devices {
		made := rec.Plan.Made(rec.Results, i)
		device, layer := r.device(d, made, sights[i])
		out.devices, out.layers = append(out.devices, device), append(out.layers, layer)
		names = append(names, strings.Join(append([]string{d.Name}, made.UUIDs()...), " "))
	}
	out.summary = strings.Join(names, ", ")
	r.add(rec.Plan.Claim, out)
}

// withdrawn asks for what was reported to be taken back.
func (r *reporter) withdrawn(claim plan.Claim) { r.add(claim, report{}) }

func (r *reporter) add(claim plan.Claim, what report) {
	r.mu.Lock()
	r.pending[claim] = what
	r.mu.Unlock()
	r.queue.Add(claim)
}

// deviceData is the data of a device's status.
type deviceData struct {
	// UUID is the GPU's, or that of the first MIG device; UUIDs has all of them
	// where a slice was divided.
	UUID  string   `json:"uuid,omitempty"`
	UUIDs []string `json:"uuids,omitempty"`
	// ParentUUID, Profile and the ids are a MIG slice's.
	ParentUUID         string `json:"parentUUID,omitempty"`
	Profile            string `json:"profile,omitempty"`
	GPUInstanceID      *int   `json:"gpuInstanceID,omitempty"`
	ComputeInstanceIDs []int  `json:"computeInstanceIDs,omitempty"`
	PCIBusID           string `json:"pciBusID"`
	// The rest is a NIC's, alone or in a pair.
	NICPCIBusID string `json:"nicPCIBusID,omitempty"`
	RDMADevice  string `json:"rdmaDevice,omitempty"`
	LinkLayer   string `json:"linkLayer,omitempty"`
	LinkState   string `json:"linkState,omitempty"`
	// NICDistance is how far a pair's NIC is from its GPU.
	NICDistance hardware.Distance `json:"nicDistance,omitempty"`
	// Distances are those to the other devices of the claim, by their names.
	Distances map[string]hardware.Distance `json:"distances,omitempty"`
}

// device is the status of one device, and the link layer of its NIC. Whether that can be
// used is added when it is written.
func (r *reporter) device(d plan.Device, made plan.Made, seen sight) (resourceapi.AllocatedDeviceStatus, string) {
	data := deviceData{UUID: d.GPU.UUID, PCIBusID: string(d.GPU.PCI), NICDistance: seen.nicDistance, Distances: seen.distances}
	if d.MIG != nil && len(made.Compute) > 0 {
		data.ParentUUID, data.Profile = d.GPU.UUID, d.MIG.Name
		data.UUIDs, data.GPUInstanceID, data.ComputeInstanceIDs = made.UUIDs(), &made.GPUInstance, made.IDs()
		data.UUID = data.UUIDs[0]
		if len(data.UUIDs) == 1 {
			data.UUIDs = nil
		}
	}
	out := resourceapi.AllocatedDeviceStatus{Driver: r.driver, Pool: d.Pool, Device: d.Name}
	if d.ShareID != "" {
		out.ShareID = &d.ShareID
	}
	if d.NIC != nil {
		data.NICPCIBusID = string(d.NIC.PCI)
		if d.GPU.PCI == "" {
			data.PCIBusID = data.NICPCIBusID
		}
		if seen.nic != nil {
			data.RDMADevice, data.LinkLayer, data.LinkState = link(*seen.nic)
			if seen.nic.Interface != "" {
				out.NetworkData = &resourceapi.NetworkDeviceData{InterfaceName: seen.nic.Interface}
			}
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	out.Data = &runtime.RawExtension{Raw: raw}
	out.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Prepared", Message: "prepared on node " + r.node, LastTransitionTime: metav1.Now(),
	}}
	return out, data.LinkLayer
}

// link is the RDMA device for traffic with its first port.
func link(n hardware.NIC) (device, layer, state string) {
	if len(n.RDMA) == 0 || len(n.RDMA[0].Ports) == 0 {
		return "", "", ""
	}
	port := n.RDMA[0].Ports[0]
	return n.RDMA[0].Name, port.LinkLayer, port.State
}

// run writes until ctx ends.
func (r *reporter) run(ctx context.Context) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.kube.EventsV1()})
	defer broadcaster.Shutdown()
	logger := klog.FromContext(ctx)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		logger.Error(err, "Record Events: there will be none")
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, component)
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for {
		claim, quit := r.queue.Get()
		if quit {
			return
		}
		r.write(ctx, claim, recorder)
		r.queue.Done(claim)
		select {
		case <-ctx.Done():
			return
		case <-time.After(reportEvery):
		}
	}
}

// write reports one claim, or leaves it in the queue for later.
func (r *reporter) write(ctx context.Context, claim plan.Claim, recorder events.EventRecorder) {
	r.mu.Lock()
	what, ok := r.pending[claim]
	delete(r.pending, claim)
	r.mu.Unlock()
	if !ok {
		return
	}
	pods, err := r.apply(ctx, claim, what)
	if err == nil {
		r.queue.Forget(claim)
		ref := &corev1.ObjectReference{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name, UID: types.UID(claim.UID)}
		for _, pod := range pods {
			if cutOff(pod) {
				recorder.Eventf(pod, ref, corev1.EventTypeWarning, "NetworkNotReady", "Prepare", "The NIC of claim %s is of no use here: %s", claim.Name, interfaceStays)
			}
		}
		if what.summary != "" {
			recorder.Eventf(ref, nil, corev1.EventTypeNormal, "Prepared", "Prepare", "Node %s prepared %s", r.node, what.summary)
		}
		return
	}
	logger := klog.FromContext(ctx).WithValues("claim", claim, "uid", claim.UID)
	if r.queue.NumRequeues(claim) >= reportTries {
		r.queue.Forget(claim)
		logger.Info("Gave up writing the claim's status", "err", err)
		return
	}
	logger.V(2).Info("Write the claim's status, will try again", "err", err)
	r.mu.Lock()
	if _, newer := r.pending[claim]; !newer {
		r.pending[claim] = what
	}
	r.mu.Unlock()
	r.queue.AddRateLimited(claim)
}

// apply writes this driver's devices into the status and leaves the others as they are.
// A claim that is gone, or that has another UID by now, needs nothing. It returns the
// claim's pods if they were looked at, which only those of NICs on Ethernet are.
//
// It is an update of what was read, not a server-side apply: that would write the
// allocation's opaque parameters in their canonical form, and where somebody wrote them
// differently the API server refuses it as a change of the allocation (1.37.2).
func (r *reporter) apply(ctx context.Context, ref plan.Claim, what report) (pods []*corev1.Pod, err error) {
	claims := r.kube.ResourceV1().ResourceClaims(ref.Namespace)
	err = clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		claim, err := claims.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && string(claim.UID) != ref.UID {
			return nil
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(what.layers, func(l string) bool { return l != "" && l != hardware.LinkLayerInfiniBand }) {
			if pods, err = podsOf(ctx, r.kube, claim); err != nil {
				return err
			}
		}
		before := len(claim.Status.Devices)
		claim.Status.Devices = slices.DeleteFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver == r.driver })
		if before == len(claim.Status.Devices) && len(what.devices) == 0 {
			return nil
		}
		for i, d := range what.devices {
			if layer := what.layers[i]; layer != "" {
				d.Conditions = append(slices.Clone(d.Conditions), networkReady(layer, pods))
			}
			claim.Status.Devices = append(claim.Status.Devices, d)
		}
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("write status of claim %s: %w", ref, err)
	}
	return pods, nil
}
