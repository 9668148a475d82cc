package bench

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// trainingNode has the eight GPUs of a dgx-h100 behind PCIe switches, so many of them
// on each, and beside every GPU an InfiniBand NIC; half of all on each NUMA node. Two
// Ethernet NICs for storage sit on root ports of their own.
func trainingNode(t testing.TB, perSwitch int) hardware.Node {
	t.Helper()
	server, _, err := catalog.LoadServer("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	node := server.Node()
	node.NICs = nil
	for i := range node.GPUs {
		base, k := 0x10*(i/perSwitch+1), i%perSwitch
		at := func(bus, device int) hardware.PCIAddress {
			return hardware.PCIAddress(fmt.Sprintf("0000:%02x:%02x.0", base+bus, device))
		}
		numa, root := i/4, fmt.Sprintf("pci0000:%02x", base)
		g := &node.GPUs[i]
		g.PCI, g.NUMANode, g.PCIeRoot = at(8+k, 0), &numa, root
		g.Bridges = []hardware.PCIAddress{at(0, 1), at(1, 0), at(2, 8+k)}
		n := nic(i, at(3+k, 0), hardware.LinkLayerInfiniBand)
		n.NUMANode, n.PCIeRoot = &numa, root
		n.Bridges = []hardware.PCIAddress{at(0, 1), at(1, 0), at(2, k)}
		node.NICs = append(node.NICs, n)
	}
	for i := range 2 {
		numa := i
		n := nic(8+i, hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 0xa1+0x10*i)), hardware.LinkLayerEthernet)
		n.NUMANode, n.PCIeRoot = &numa, fmt.Sprintf("pci0000:%02x", 0xa0+0x10*i)
		n.Bridges = []hardware.PCIAddress{hardware.PCIAddress(fmt.Sprintf("0000:%02x:01.0", 0xa0+0x10*i))}
		node.NICs = append(node.NICs, n)
	}
	return node
}

func nic(i int, at hardware.PCIAddress, layer string) hardware.NIC {
	return hardware.NIC{PCI: at, RDMA: []hardware.RDMADevice{{
		Name:  fmt.Sprintf("mlx5_%d", i),
		Ports: []hardware.RDMAPort{{Number: 1, LinkLayer: layer, State: hardware.PortActive, BitsPerSecond: 400e9}},
	}}}
}

// nicState is a cluster whose nodes are all alike, with what the options publish.
func nicState(t testing.TB, node hardware.Node, nodes int, opts publish.Options) *allocate.State {
	t.Helper()
	in := allocate.Input{Features: allocate.DefaultFeatures(), Classes: nicClasses()}
	for i := range nodes {
		opts.NodeName = nodeName(i)
		resources, err := publish.Build(node, opts)
		if err != nil {
			t.Fatal(err)
		}
		in.Slices = append(in.Slices, allocate.Published(driverName, opts.NodeName, resources)...)
	}
	state, err := allocate.New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// nicClasses are those of the chart.
func nicClasses() []*resourceapi.DeviceClass {
	var out []*resourceapi.DeviceClass
	for class, kind := range map[string]string{"gpu": publish.TypeGPU, "rdma": publish.TypeNIC, "gpu-nic": publish.TypePair} {
		out = append(out, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %[1]q && device.attributes[%[1]q].type == %[2]q", driverName, kind),
			}}}},
		})
	}
	return out
}

// request asks for count devices of a class.
func request(name, class string, count int) resourceapi.DeviceRequest {
	exactly := &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count),
	}
	if class == "rdma" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].?linkLayer.orValue('') == 'InfiniBand'", driverName),
		}}}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: exactly}
}

func claimOf(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

// matched asks for members GPU–NIC pairs by one constraint each.
func matched(members int, attribute string) *resourceapi.ResourceClaim {
	c := claimOf()
	for i := range members {
		g, n := fmt.Sprintf("g%d", i), fmt.Sprintf("n%d", i)
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, request(g, "gpu", 1), request(n, "rdma", 1))
		name := resourceapi.FullyQualifiedName(attribute)
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints,
			resourceapi.DeviceConstraint{Requests: []string{g, n}, MatchAttribute: &name})
	}
	return c
}

// holdNICs gives NICs of a node to other claims.
func holdNICs(state *allocate.State, node string, pool string, nics []hardware.NIC) {
	var held resourceapi.AllocationResult
	for _, n := range nics {
		held.Devices.Results = append(held.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: driverName, Pool: pool, Device: n.DeviceName(),
		})
	}
	state.Hold(types.UID("nics-of-"+node), held)
}
