package simnode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// attribute is a file's content below /sys.
func attribute(t *testing.T, n *simnode.Node, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(n.SysRoot, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestNICsAreWhatKubernetesReads(t *testing.T) {
	n := simnode.Start(t, "roce-vf")
	for _, nic := range n.Server.Node().NICs {
		root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(string(nic.PCI), deviceattribute.WithFSFromRoot(n.SysRoot))
		if err != nil {
			t.Fatal(err)
		}
		numa, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(string(nic.PCI), deviceattribute.ScalarAttribute, deviceattribute.WithFSFromRoot(n.SysRoot))
		if err != nil {
			t.Fatal(err)
		}
		if *root.Value.StringValue != nic.PCIeRoot || int(*numa.Value.IntValue) != *nic.NUMANode {
			t.Errorf("%s is at %s, node %d, want %s, node %d", nic.PCI, *root.Value.StringValue, *numa.Value.IntValue, nic.PCIeRoot, *nic.NUMANode)
		}
		d := nic.RDMA[0]
		if got := attribute(t, n, "class/infiniband/"+d.Name+"/node_guid"); got != d.NodeGUID+"\n" {
			t.Errorf("%s has GUID %q, want %q", d.Name, got, d.NodeGUID)
		}
		if _, err := os.Open(filepath.Join(n.DevRoot, d.Verbs.Path)); !errors.Is(err, unix.ENXIO) {
			t.Errorf("open %s: %v, want a device without a driver", d.Verbs.Path, err)
		}
	}
}

// NICs are hardware: what happened to them outlives the daemon.
func TestNICsOutliveTheDaemon(t *testing.T) {
	n := simnode.Start(t, "mixed")
	n.Do("nic", "vfs", "--nic=mlx5_0", "--count=2")
	n.Do("nic", "port", "--nic=mlx5_1", "--state=DOWN")
	n.Do("nic", "unplug", "--nic=mlx5_2", "--for=1h")
	want := n.State()
	n.Kill()
	n.Await()
	got := n.State()
	if diff := cmp.Diff(want.NICs, got.NICs); diff != "" {
		t.Errorf("NICs after a crash (-want +got):\n%s", diff)
	}
	n.Restart()
	for path, want := range map[string]string{
		"class/infiniband/mlx5_1/ports/1/state":        "1: DOWN\n",
		"class/infiniband/mlx5_3/device/physfn/vendor": "0x15b3\n",
		"bus/pci/devices/0000:3a:00.0/sriov_numvfs":    "2\n",
	} {
		if got := attribute(t, n, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(n.SysRoot, "class/infiniband/mlx5_2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the NIC that is late is there: %v", err)
	}
}

// A NIC that is late comes by itself, with its device nodes.
func TestLateNIC(t *testing.T) {
	n := simnode.Start(t, "mixed")
	n.Do("nic", "unplug", "--nic=mlx5_1", "--for=100ms")
	verbs := filepath.Join(n.DevRoot, "dev/infiniband/uverbs1")
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err := os.Stat(verbs)
		return err == nil && !n.State().NICs[1].Absent, nil
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", verbs, err)
	}
	c := n.Container(t, "infiniband/uverbs1", "infiniband/rdma_cm")
	for _, node := range []string{"uverbs1", "rdma_cm"} {
		var host, inside unix.Stat_t
		err := errors.Join(unix.Stat(filepath.Join(n.DevRoot, "dev/infiniband", node), &host), unix.Stat(filepath.Join(c.Root, "dev/infiniband", node), &inside))
		if err != nil || host.Rdev != inside.Rdev {
			t.Errorf("%s is %d in the container, %d outside, %v", node, inside.Rdev, host.Rdev, err)
		}
	}
}
