//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// Selectors for NICs by their link.
const (
	infiniBand = `device.attributes["cleave.dev"].linkLayer == "InfiniBand"`
	ethernet   = `device.attributes["cleave.dev"].linkLayer == "Ethernet"`
)

// withNCCL configures the NICs of a request for NCCL. The white space in the parameters
// is meant: a status that was applied, not updated, would be refused because of it.
func withNCCL(spec resourceapi.ResourceClaimSpec, request string) resourceapi.ResourceClaimSpec {
	spec.Devices.Config = append(spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
		Requests: []string{request},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver:     cluster.DriverName,
			Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion": "cleave.dev/v1alpha1", "kind": "RDMAConfig", "nccl": true}`)},
		}},
	})
	return spec
}

// sameSwitch makes the scheduler choose requests below one PCIe switch.
func sameSwitch(spec resourceapi.ResourceClaimSpec, requests ...string) resourceapi.ResourceClaimSpec {
	attribute := resourceapi.FullyQualifiedName(cluster.DriverName + "/pcieSwitch")
	spec.Devices.Constraints = append(spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: &attribute})
	return spec
}

// requests is a claim with these.
func requests(list ...resourceapi.DeviceRequest) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: list}}
}

// pairs is a claim with n GPUs, each with a NIC near it.
func pairs(n int64) resourceapi.ResourceClaimSpec {
	spec := ask("gpu-nic.cleave.dev")
	spec.Devices.Requests[0].Exactly.Count = n
	return spec
}

// TestGPUWithItsNIC: each container has the nodes of the NIC that it names and of no
// other, and what NCCL needs; the claim's status says how near the two are.
func TestGPUWithItsNIC(t *testing.T) {
	e := newEnv(t)
	e.template("gpu-nic", sameSwitch(withNCCL(requests(
		request("nic", "rdma.cleave.dev", infiniBand), request("gpu", "gpu.cleave.dev")), "nic"), "nic", "gpu"))
	pod := e.sleeper("aligned", dgx, "gpu-nic")
	pod.Spec.Containers = []corev1.Container{
		e.container("nic", sleep, corev1.ResourceClaim{Name: mainClaim, Request: "nic"}),
		e.container("gpu", sleep, corev1.ResourceClaim{Name: mainClaim, Request: "gpu"}),
		e.container("all", sleep, corev1.ResourceClaim{Name: mainClaim}),
		e.container("none", sleep),
	}
	pod = e.start(pod)
	nic := e.look(pod, "nic")[0]
	for container, has := range map[string]bool{"nic": true, "all": true, "gpu": false, "none": false} {
		e.run(container, func(e *env) {
			var own []cluster.Seen
			if has {
				own = append(own, nic)
			}
			e.checkRDMANodes(pod, container, dgx, own)
			env := e.in(pod, container, `echo "$NCCL_IB_HCA"; [ -z "$NCCL_TOPO_FILE" ] || cat "$NCCL_TOPO_FILE"`)
			for _, want := range []string{"=" + nic.Attribute("rdmaDevice") + ":1\n", `busid="` + nic.NIC() + `"`, "<gpu"} {
				if strings.Contains(env, want) != has {
					e.t.Errorf("NCCL_IB_HCA and the topology file have %q: %v, want %v:\n%s", want, !has, has, env)
				}
			}
		})
	}
	gpu := e.look(pod, "gpu")[0]
	e.eventually(podTimeout, "the claim's status has the distance", func(ctx context.Context) error {
		d, err := e.statusOf(ctx, nic.Claim.Name, nic.Device.Name)
		if err != nil {
			return err
		}
		var data struct {
			Distances map[string]string `json:"distances"`
		}
		if err := json.Unmarshal(d.Data.Raw, &data); err != nil || data.Distances[gpu.Device.Name] != "PIX" {
			return fmt.Errorf("want %s at PIX in %s (%w)", gpu.Device.Name, d.Data.Raw, err)
		}
		return nil
	})
}

// checkRDMANodes compares /dev/infiniband in a container with the nodes of the NICs
// that it has, opens them, and tries to get at the other NICs of the node.
func (e *env) checkRDMANodes(pod *corev1.Pod, container, server string, own []cluster.Seen) {
	e.t.Helper()
	var want []string
	for _, s := range own {
		want = append(want, e.rdmaNodesOf(server, s.Attribute("rdmaDevice"))...)
	}
	if len(own) > 0 {
		want = append(want, "/dev/infiniband/rdma_cm")
	}
	slices.Sort(want)
	got := strings.Fields(e.in(pod, container, "[ ! -e /dev/infiniband ] || find /dev/infiniband ! -type d | sort"))
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		e.t.Errorf("RDMA nodes in the container (-want +got):\n%s", diff)
	}
	for path, answer := range e.open(pod, container, got) {
		if answer == forbidden {
			e.t.Errorf("open %s: %s", path, answer)
		}
	}
	var foreign []string
	for _, number := range strings.Fields(e.on(server, "cd "+simulatedRoot+"/dev/infiniband && stat -c '%n:0x%t:0x%T' $(ls | grep -v rdma_cm)")) {
		if name, _, _ := strings.Cut(number, ":"); !slices.Contains(want, "/dev/infiniband/"+name) {
			foreign = append(foreign, number)
		}
	}
	if len(foreign) == 0 {
		e.t.Fatal("there are no NICs of others")
	}
	for number, answer := range e.openByNumber(pod, container, foreign) {
		if answer != forbidden {
			e.t.Errorf("open a node made with the numbers of %s: %q, want %q", number, answer, forbidden)
		}
	}
}

// rdmaNodesOf are the nodes for traffic and for management of an RDMA device, as the
// simulated kernel has them.
func (e *env) rdmaNodesOf(server, device string) []string {
	e.t.Helper()
	out := e.on(server, fmt.Sprintf(`cd %s/sys/class
		for f in infiniband_verbs/uverbs*/ibdev infiniband_mad/umad*/ibdev; do
			if [ "$(cat $f)" = %s ]; then basename "$(dirname $f)"; fi
		done`, simulatedRoot, device))
	var nodes []string
	for _, name := range strings.Fields(out) {
		nodes = append(nodes, "/dev/infiniband/"+name)
	}
	if len(nodes) == 0 {
		e.t.Fatalf("the simulated RDMA device %s has no nodes", device)
	}
	return nodes
}

// statusOf is the status of a claim's device.
func (e *env) statusOf(ctx context.Context, claim, device string) (resourceapi.AllocatedDeviceStatus, error) {
	got, err := e.Client.ResourceV1().ResourceClaims(e.namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return resourceapi.AllocatedDeviceStatus{}, err
	}
	for _, d := range got.Status.Devices {
		if d.Device == device && d.Data != nil {
			return d, nil
		}
	}
	return resourceapi.AllocatedDeviceStatus{}, fmt.Errorf("claim %s has no status of %s", claim, device)
}

// TestEightPairs: one request for all GPUs, each with its NIC. While a pod has one pair,
// eight are not to be had, and neither its GPU nor its NIC alone.
func TestEightPairs(t *testing.T) {
	e := newEnv(t)
	e.template("one", pairs(1))
	e.template("eight", pairs(8))
	gpus, nics := ask("gpu.cleave.dev"), ask("rdma.cleave.dev", infiniBand)
	gpus.Devices.Requests[0].Exactly.Count, nics.Devices.Requests[0].Exactly.Count = 8, 8
	e.template("all-gpus", gpus)
	e.template("all-nics", nics)
	one := e.start(e.sleeper("one", dgx, "one"))
	e.checkRDMANodes(one, mainContainer, dgx, e.look(one, mainContainer))
	for _, name := range []string{"all-gpus", "all-nics", "eight"} {
		e.waitUnschedulable(e.create(e.sleeper(name, dgx, name)))
	}
	for _, name := range []string{"all-gpus", "all-nics"} {
		e.stop(e.pod(name))
	}
	e.stop(one)
	eight := e.ready("eight")
	seen := e.look(eight, mainContainer)
	if len(seen) != 8 {
		t.Fatalf("want 8 pairs, got %d", len(seen))
	}
	e.checkRDMANodesOfAll(eight, seen)
}

// pod is one of the test's pods as it is now.
func (e *env) pod(name string) *corev1.Pod {
	e.t.Helper()
	pod, err := e.Client.CoreV1().Pods(e.namespace).Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatalf("get pod %s: %v", name, err)
	}
	return pod
}

// checkRDMANodesOfAll is checkRDMANodes for a container that has all compute NICs; the
// storage NICs are others'.
func (e *env) checkRDMANodesOfAll(pod *corev1.Pod, seen []cluster.Seen) {
	e.t.Helper()
	nics := map[string]bool{}
	for _, s := range seen {
		nics[s.NIC()] = true
	}
	if len(nics) != len(seen) {
		e.t.Errorf("%d pairs have %d NICs", len(seen), len(nics))
	}
	e.checkRDMANodes(pod, mainContainer, dgx, seen)
}

// TestSharedNIC: claims take a NIC's bandwidth until there is no more.
func TestSharedNIC(t *testing.T) {
	e := newEnv(t)
	quarter := requests(request("nic", "rdma.cleave.dev"), request("slice", "mig-1g.10gb.cleave.dev"))
	quarter.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{
		Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("100G")},
	}
	e.template("quarter", sameSwitch(quarter, "nic", "slice"))
	nics := map[string]bool{}
	for i := range 4 {
		pod := e.start(e.sleeper(fmt.Sprintf("quarter-%d", i), mixed, "quarter"))
		for _, s := range e.look(pod, mainContainer) {
			if s.NIC() != "" {
				nics[s.NIC()] = true
				e.checkRDMANodes(pod, mainContainer, mixed, []cluster.Seen{s})
			}
		}
	}
	if len(nics) != 1 {
		t.Errorf("the four pods have %d NICs, want one", len(nics))
	}
	fifth := e.create(e.sleeper("fifth", mixed, "quarter"))
	e.waitUnschedulable(fifth)
	e.stop(e.pod("quarter-2"))
	e.ready(fifth.Name)
}

// TestEthernetNIC: RDMA over Ethernet works in the host's network only, and a pod that
// is not in it is told so.
func TestEthernetNIC(t *testing.T) {
	e := newEnv(t)
	e.template("nic", ask("rdma.cleave.dev", ethernet))
	inside := e.create(e.sleeper("inside", dgx, "nic"))
	outside := e.sleeper("outside", dgx, "nic")
	outside.Spec.HostNetwork = true
	e.create(outside)
	for name, want := range map[string]metav1.ConditionStatus{"inside": metav1.ConditionFalse, "outside": metav1.ConditionTrue} {
		pod := e.ready(name)
		seen := e.look(pod, mainContainer)[0]
		e.eventually(podTimeout, "the claim's status tells "+name+" whether its network works", func(ctx context.Context) error {
			d, err := e.statusOf(ctx, seen.Claim.Name, seen.Device.Name)
			if err != nil {
				return err
			}
			for _, c := range d.Conditions {
				if c.Type == "NetworkReady" && c.Status == want && c.Message != "" {
					return nil
				}
			}
			return fmt.Errorf("conditions: %+v", d.Conditions)
		})
	}
	if event := e.waitEvent(inside, "NetworkNotReady"); !strings.Contains(event, "hostNetwork") {
		t.Errorf("the Event says %q", event)
	}
}

// TestPairsSwitchedOff: NICs change pool, so while a claim holds a pair the node keeps
// what it offered and says what it waits for.
func TestPairsSwitchedOff(t *testing.T) {
	e := newEnv(t)
	before := e.pool()
	e.template("one", pairs(1))
	one := e.start(e.sleeper("one", dgx, "one"))
	device := e.look(one, mainContainer)[0].Device.Name
	set := e.pluginSet(dgx)
	t.Cleanup(func() { e.setPairs(set, true) })
	e.setPairs(set, false)
	e.eventually(podTimeout, "the plugin says what holds it up", func(ctx context.Context) error {
		// It answers with an error until it is ready.
		if out, err := e.get(ctx, dgx, "readyz"); err == nil || !strings.Contains(err.Error(), device) {
			return fmt.Errorf("/readyz: %s: %w", out, err)
		}
		return nil
	})
	if diff := cmp.Diff(before, e.pool()); diff != "" {
		t.Errorf("published, while a claim holds a pair (-before +now):\n%s", diff)
	}
	e.stop(one)
	e.eventually(podTimeout, "there are no pairs any more", func(ctx context.Context) error {
		published, err := e.Published(ctx)
		if err != nil {
			return err
		}
		pools := map[string]bool{}
		for key, d := range published {
			if d.Node == e.nodes[dgx] {
				pools[key.Pool] = true
			}
			if kind(d.Device) == "pair" {
				return fmt.Errorf("there is %s", d.Device.Name)
			}
		}
		if len(pools) != 2 {
			return fmt.Errorf("want a pool of GPUs and one of NICs, there are %v", pools)
		}
		return nil
	})
	e.setPairs(set, true)
	e.waitSamePool(before)
}

// setPairs runs the plugins of a DaemonSet with pairs or without.
func (e *env) setPairs(set *appsv1.DaemonSet, on bool) {
	e.t.Helper()
	const flag = "--topology-pairs="
	args := set.Spec.Template.Spec.Containers[0].Args
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if i < 0 {
		e.t.Errorf("the plugin has no %s: %v", flag, args)
		return
	}
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/args/%d", "value": "%s%v"}]`, i, flag, on)
	_, err := e.Client.AppsV1().DaemonSets(set.Namespace).Patch(context.WithoutCancel(e.t.Context()),
		set.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.t.Errorf("set %s%v: %v", flag, on, err)
	}
}
