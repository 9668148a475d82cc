package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/node"
	"github.com/cleave-dra/cleave/pkg/slices"
	"github.com/cleave-dra/cleave/test/testkit/program"
)

// edits are those of the claim's CDI devices, by name.
func (f *fixture) edits(claim string) map[string]specs.ContainerEdits {
	f.t.Helper()
	data, err := os.ReadFile(f.path("cdi", "cleave.dev-claim-uid-"+claim+".json"))
	if err != nil {
		f.t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		f.t.Fatal(err)
	}
	out := map[string]specs.ContainerEdits{}
	for _, d := range spec.Devices {
		out[d.Name] = d.ContainerEdits
	}
	return out
}

func withNICs(pairs bool) func(*fixture) {
	return with(func(c *node.Config) { c.NICs, c.Pairs = true, pairs })
}

func paths(edits specs.ContainerEdits) string {
	var out []string
	for _, n := range edits.DeviceNodes {
		out = append(out, n.Path)
	}
	return strings.Join(out, " ")
}

const withNCCL = `{"apiVersion":"cleave.dev/v1alpha1","kind":"RDMAConfig","nccl":true}`

// TestPrepareNIC: a GPU and its NIC in one claim, each request with its own nodes, and
// what NCCL needs; the status says how far apart the two are.
func TestPrepareNIC(t *testing.T) {
	f := newFixture(t, "mixed", withNICs(false))
	model := f.hw.Server.Node()
	nic := model.NICs[0]
	c := f.configured("a", withNCCL, f.whole(0), nic.DeviceName())
	c.Status.Allocation.Devices.Results[1].Pool = nodeName + "/rdma"
	c = f.create(c)
	f.mustPrepare(c)
	edits := f.edits("a")
	if got := paths(edits["uid-a-0"]); got != "/dev/nvidia0" {
		t.Errorf("nodes of the GPU: %s", got)
	}
	verbs := nic.RDMA[0].Verbs.Path
	if got := paths(edits["uid-a-1"]); !strings.Contains(got, verbs) || !strings.Contains(got, "/dev/infiniband/rdma_cm") || strings.Contains(got, "issm") {
		t.Errorf("nodes of the NIC: %s, want %s and rdma_cm, and no issm", got, verbs)
	}
	if env := strings.Join(edits["uid-a-1"].Env, " "); !strings.Contains(env, "NCCL_IB_HCA=="+nic.RDMA[0].Name+":1") || !strings.Contains(env, "NCCL_TOPO_FILE=") {
		t.Errorf("environment: %s", env)
	}
	want := hardware.DistanceBetween(model.GPUs[0].Place(), nic.Place())
	f.await("the status has the distance", func(ctx context.Context) error {
		got, err := f.kube.ResourceV1().ResourceClaims("ns").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range got.Status.Devices {
			if d.Device == nic.DeviceName() && strings.Contains(string(d.Data.Raw), fmt.Sprintf(`"%s":"%s"`, f.whole(0), want)) {
				return nil
			}
		}
		return fmt.Errorf("devices: %+v", got.Status.Devices)
	})
	other := f.claim("b", nic.DeviceName())
	f.mustRefuse(other, "ns/a")
	f.mustUnprepare(c)
	f.mustPrepare(other)
	f.mustUnprepare(other)
	f.mustBeClean()
}

// TestPreparePair: a pair is its GPU and its NIC, and nobody else gets either.
func TestPreparePair(t *testing.T) {
	f := newFixture(t, "mixed", withNICs(true))
	model := f.hw.Server.Node()
	pair := hardware.PairName(model.GPUs[0], model.NICs[0])
	f.awaitTaint(pair, "")
	c := f.claim("a", pair)
	devices := f.mustPrepare(c)
	if len(devices) != 1 || devices[0].DeviceName != pair {
		t.Errorf("devices: %v", devices)
	}
	got := paths(f.edits("a")["uid-a-0"])
	for _, want := range []string{"/dev/nvidia0", model.NICs[0].RDMA[0].Verbs.Path, "/dev/infiniband/rdma_cm"} {
		if !strings.Contains(got, want) {
			t.Errorf("nodes: %s, want %s", got, want)
		}
	}
	f.mustRefuse(f.claim("b", f.whole(0)), "ns/a")
	f.mustRefuse(f.claim("c", model.NICs[0].DeviceName()), "ns/a")
	f.mustUnprepare(c)
	f.mustBeClean()
}

// TestMissingNIC: a NIC that goes is tainted, and comes back as itself.
func TestMissingNIC(t *testing.T) {
	f := newFixture(t, "mixed", withNICs(false))
	nic := f.hw.Server.Node().NICs[0]
	f.awaitTaint(nic.DeviceName(), "")
	f.hw.Do("nic", "unplug", "--nic="+string(nic.PCI))
	f.awaitTaint(nic.DeviceName(), node.TaintNICMissing)
	f.mustRefuse(f.claim("a", nic.DeviceName()), "not found")
	f.hw.Do("nic", "plug", "--nic="+string(nic.PCI))
	f.awaitTaint(nic.DeviceName(), "")
}

// TestExclusiveRDMA: in exclusive mode a container would need its NIC moved into its
// network namespace, so none is offered.
func TestExclusiveRDMA(t *testing.T) {
	f := newFixture(t, "mixed", withNICs(false))
	nic := f.hw.Server.Node().NICs[0]
	f.hw.Do("nic", "mode", "--exclusive=true")
	f.awaitTaint(nic.DeviceName(), node.TaintNICMissing)
}

// bandwidth is what a device is published with, in bit/s.
func (f *fixture) bandwidth(ctx context.Context, device string) (int64, error) {
	all, err := f.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, s := range all.Items {
		for _, d := range s.Spec.Devices {
			if d.Name == device {
				c := d.Capacity[slices.CapacityBandwidth]
				return c.Value.Value(), nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not published", device)
}

func (f *fixture) awaitBandwidth(device string, want int64) {
	f.t.Helper()
	f.await(fmt.Sprintf("%s has %d bit/s", device, want), func(ctx context.Context) error {
		got, err := f.bandwidth(ctx, device)
		if err == nil && got != want {
			err = fmt.Errorf("it has %d", got)
		}
		return err
	})
}

// TestNICsAtAGlance: a port that goes down and a NIC that comes late are published long
// before all hardware is looked at again, and nothing is written while nothing changes.
func TestNICsAtAGlance(t *testing.T) {
	f := newFixture(t, "mixed", with(func(c *node.Config) { c.NICs, c.Rescan, c.Glance = true, time.Hour, 50*time.Millisecond }))
	nic := f.hw.Server.Node().NICs[0]
	name, pci := nic.DeviceName(), "--nic="+string(nic.PCI)
	f.awaitBandwidth(name, nic.Bandwidth())
	f.hw.Do("nic", "port", pci, "--state=DOWN")
	f.awaitBandwidth(name, 0)
	f.hw.Do("nic", "port", pci, "--state=ACTIVE")
	f.awaitBandwidth(name, nic.Bandwidth())
	f.hw.Do("nic", "unplug", pci, "--for=2s")
	f.awaitTaint(name, node.TaintNICMissing)
	f.awaitTaint(name, "")
	f.kube.ClearActions()
	f.holdsFor(name, "", 3*time.Second)
	for _, a := range f.kube.Actions() {
		if a.GetResource().Resource == "resourceslices" && a.GetVerb() != "list" && a.GetVerb() != "get" {
			t.Errorf("%s of a ResourceSlice although nothing has changed", a.GetVerb())
		}
	}
}

// filtered has the plugin filter NICs by an expression.
func filtered(t *testing.T, expression string) func(*fixture) {
	path := program.Build(t, "cleave-filter")
	return with(func(c *node.Config) { c.NICs, c.NICFilter, c.FilterProgram = true, expression, path })
}

// TestNICFilter: what the filter leaves out is not published, and cannot be had; what it
// leaves out later is tainted first, and so is what a claim holds at a start.
func TestNICFilter(t *testing.T) {
	f := newFixture(t, "mixed", filtered(t, `device.capacity["cleave.dev"].bandwidth.isGreaterThan(quantity("1G")) && device.attributes["cleave.dev"].rdmaDevice == "mlx5_0"`))
	nics := f.hw.Server.Node().NICs
	taken, left := nics[0].DeviceName(), nics[1].DeviceName()
	f.awaitTaint(taken, "")
	f.awaitTaint(left, "-")
	c := f.claim("a", taken)
	c.Status.Allocation.Devices.Results[0].Pool = nodeName + "/rdma"
	c = f.create(c)
	f.mustPrepare(c)
	f.stop()
	filtered(t, "false")(f)
	f.start()
	f.awaitTaint(taken, node.TaintNICMissing)
	f.mustPrepare(c) // it still answers
	f.mustUnprepare(c)
	f.mustBeClean()
}

func TestNICFilterThatDoesNotCompile(t *testing.T) {
	f := newFixture(t, "mixed")
	f.stop()
	filtered(t, `device.attributes[`)(f)
	cfg := node.Config{DriverName: driverName, NodeName: nodeName, PluginDir: f.path("plugin"), RegistrarDir: f.path("registry"), CDIDir: f.path("cdi")}
	f.configure(&cfg)
	deps, closeDriver := f.deps()
	defer closeDriver()
	if err := node.New(cfg, deps).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "filter of NICs: compile expression") || !strings.Contains(err.Error(), "Syntax error") {
		t.Errorf("the plugin ended with %v", err)
	}
}
