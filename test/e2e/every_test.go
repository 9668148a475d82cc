//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// pinKey is a taint on every device, with the device's name as value: only a request
// that tolerates exactly that can get it. CEL has no device names, and no attribute tells
// two placements of a profile apart.
const pinKey = "e2e.cleave.dev/device"

// The second container, for NICs: what nvidia-smi lists is compared with all claims of
// a container.
const nicContainer = "nics"

// TestEveryDevice: each GPU, each MIG slice at each placement, each NIC and each pair of
// both servers is allocated, made and seen in a container once. Pods take as many devices at
// a time as fit beside each other.
func TestEveryDevice(t *testing.T) {
	e := newEnv(t)
	published, err := e.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.pin(published)
	list, err := e.Slices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range e.servers() {
		var devices []resourceapi.Device
		for _, p := range published {
			if p.Node == e.nodes[server] {
				devices = append(devices, p.Device)
			}
		}
		e.run(server, func(e *env) {
			e.t.Parallel()
			rounds := pack(devices, counterSets(list, e.nodes[server]))
			seen := 0
			for i, round := range rounds {
				seen += e.useAll(fmt.Sprintf("%s-%02d", server, i), server, round)
			}
			e.t.Logf("%d devices in %d pods", seen, len(rounds))
			if seen != len(devices) {
				e.t.Errorf("%d devices were seen in pods, %d are published", seen, len(devices))
			}
		})
	}
}

// pin taints every device with its name, until the test ends.
func (e *env) pin(devices map[cluster.DeviceKey]cluster.PublishedDevice) {
	e.t.Helper()
	rules := e.Client.ResourceV1().DeviceTaintRules()
	label := map[string]string{"cleave.dev/e2e": e.namespace}
	e.t.Cleanup(func() {
		ours := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: label})}
		if err := rules.DeleteCollection(context.WithoutCancel(e.t.Context()), metav1.DeleteOptions{}, ours); err != nil {
			e.t.Errorf("delete the taints of the test: %v", err)
		}
	})
	driver := cluster.DriverName
	for key := range devices {
		_, err := rules.Create(e.t.Context(), &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "cleave-e2e-", Labels: label},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &key.Pool, Device: &key.Device},
				Taint:          resourceapi.DeviceTaint{Key: pinKey, Value: key.Device, Effect: resourceapi.DeviceTaintEffectNoSchedule},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			e.t.Fatalf("taint %s: %v", key.Device, err)
		}
	}
}

// stock is what is left of a node's counters, by counter set.
type stock map[string]map[string]int64

func counterSets(list []resourceapi.ResourceSlice, node string) stock {
	out := stock{}
	for _, s := range list {
		for _, set := range s.Spec.SharedCounters {
			if s.Spec.NodeName == nil || *s.Spec.NodeName != node {
				continue
			}
			out[set.Name] = map[string]int64{}
			for name, c := range set.Counters {
				out[set.Name][name] = c.Value.Value()
			}
		}
	}
	return out
}

// take reduces the stock by what a device consumes, if there is as much.
func (s stock) take(d resourceapi.Device) bool {
	for _, of := range d.ConsumesCounters {
		for name, c := range of.Counters {
			if s[of.CounterSet][name] < c.Value.Value() {
				return false
			}
		}
	}
	for _, of := range d.ConsumesCounters {
		for name, c := range of.Counters {
			s[of.CounterSet][name] -= c.Value.Value()
		}
	}
	return true
}

// pack puts devices into rounds, in each of which all are there beside each other: the
// largest first, each into the first round that has room. Of equal size those with media
// extensions (+me) come first: a GPU has one at a time.
func pack(devices []resourceapi.Device, full stock) [][]resourceapi.Device {
	memory := func(d resourceapi.Device) int64 { return cluster.Allocated{Device: d}.Memory() }
	slices.SortFunc(devices, func(a, b resourceapi.Device) int {
		return cmp.Or(cmp.Compare(memory(b), memory(a)), strings.Compare(b.Name, a.Name))
	})
	var rounds [][]resourceapi.Device
	var left []stock
	for _, d := range devices {
		i := slices.IndexFunc(left, func(s stock) bool { return s.take(d) })
		if i < 0 {
			i = len(rounds)
			rounds, left = append(rounds, nil), append(left, stock{})
			for set, counters := range full {
				left[i][set] = maps.Clone(counters)
			}
			left[i].take(d)
		}
		rounds[i] = append(rounds[i], d)
	}
	return rounds
}

// useAll runs a pod with exactly these devices, one claim for each GPU and NIC, checks
// that they are there and seen, and returns how many.
func (e *env) useAll(name, server string, devices []resourceapi.Device) int {
	e.t.Helper()
	pod := e.sleeper(name, server, "")
	pod.Spec.ResourceClaims = nil
	gpus, nics := e.container(mainContainer, sleep), e.container(nicContainer, sleep)
	claims := map[hardware.PCIAddress]*resourceapi.ResourceClaim{}
	for _, d := range devices {
		addresses, err := hardware.AddressesOf(d.Name)
		if err != nil {
			e.t.Fatal(err)
		}
		address := addresses[0] // of a pair the GPU's
		claim := claims[address]
		if claim == nil {
			claim = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, len(claims))}}
			claims[address] = claim
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
			container := &gpus
			if isNIC(d) {
				container = &nics
			}
			container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, exactly(fmt.Sprintf("r%d", len(claim.Spec.Devices.Requests)), d))
	}
	for _, claim := range claims {
		if _, err := e.Client.ResourceV1().ResourceClaims(e.namespace).Create(e.t.Context(), claim, metav1.CreateOptions{}); err != nil {
			e.t.Fatalf("create claim %s: %v", claim.Name, err)
		}
	}
	pod.Spec.Containers = []corev1.Container{gpus}
	if len(nics.Resources.Claims) > 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, nics)
	}
	pod = e.start(pod)
	seen := e.checkAllGPUs(pod, server, devices)
	if len(pod.Spec.Containers) > 1 {
		seen += e.checkAllNICs(pod, server, devices)
	}
	e.stop(pod)
	return seen
}

// exactly asks for one device.
func exactly(name string, d resourceapi.Device) resourceapi.DeviceRequest {
	classes := map[string]string{"gpu": "gpu.cleave.dev", "mig": "mig.cleave.dev", "nic": "rdma.cleave.dev", "gpu-nic": "gpu-nic.cleave.dev"}
	out := request(name, classes[cluster.Allocated{Device: d}.Attribute("type")])
	out.Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: pinKey, Operator: resourceapi.DeviceTolerationOpEqual, Value: d.Name}}
	return out
}

func isNIC(d resourceapi.Device) bool { return cluster.Allocated{Device: d}.Attribute("type") == "nic" }

// checkAllGPUs checks that the pod's first container sees the GPUs and slices among the
// devices, and that the hardware has the slices where their names say.
func (e *env) checkAllGPUs(pod *corev1.Pod, server string, devices []resourceapi.Device) int {
	e.t.Helper()
	want, got := map[string]bool{}, map[string]bool{}
	var made []string
	for _, d := range devices {
		if isNIC(d) {
			continue
		}
		want[d.Name] = true
		if profile := (cluster.Allocated{Device: d}).Attribute("profile"); profile != "" {
			address, err := hardware.AddressOf(d.Name)
			if err != nil {
				e.t.Fatal(err)
			}
			made = append(made, fmt.Sprintf("%s %s at %s", address, profile, d.Name[strings.LastIndex(d.Name, "-")+1:]))
		}
	}
	for _, s := range e.look(pod, mainContainer) {
		got[s.Device.Name] = true
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		e.t.Errorf("pod %s: GPUs and slices (-want +got):\n%s", pod.Name, diff)
	}
	state, err := e.hardware(e.t.Context(), server)
	if err != nil {
		e.t.Fatal(err)
	}
	var live []string
	for _, g := range state.GPUs {
		for _, in := range g.Instances {
			live = append(live, fmt.Sprintf("%s %s at %d", g.PCI, in.Profile, in.Placement.Start))
		}
	}
	slices.Sort(made)
	slices.Sort(live)
	if diff := gocmp.Diff(made, live, cmpopts.EquateEmpty()); diff != "" {
		e.t.Errorf("pod %s: MIG instances on the node (-want +got):\n%s", pod.Name, diff)
	}
	return len(got)
}

// checkAllNICs checks that the pod's second container has the nodes of the NICs among
// the devices, and may open them.
func (e *env) checkAllNICs(pod *corev1.Pod, server string, devices []resourceapi.Device) int {
	e.t.Helper()
	state, err := e.hardware(e.t.Context(), server)
	if err != nil {
		e.t.Fatal(err)
	}
	var want []string
	n := 0
	for _, d := range devices {
		if !isNIC(d) {
			continue
		}
		n++
		address, err := hardware.AddressOf(d.Name)
		if err != nil {
			e.t.Fatal(err)
		}
		for _, nic := range state.NICs {
			for _, rdma := range nic.RDMA {
				if nic.PCI == address && rdma.Verbs.Path != "" {
					want = append(want, rdma.Verbs.Path)
				}
			}
		}
	}
	got := strings.Fields(e.in(pod, nicContainer, "find /dev -path '/dev/infiniband/uverbs*' | sort"))
	slices.Sort(want)
	if diff := gocmp.Diff(want, got); diff != "" || len(want) < n {
		e.t.Errorf("pod %s: nodes of %d NICs (-want +got):\n%s", pod.Name, n, diff)
	}
	for path, answer := range e.open(pod, nicContainer, got) {
		if answer != permitted {
			e.t.Errorf("pod %s: open %s: %q, want %q", pod.Name, path, answer, permitted)
		}
	}
	return n
}
