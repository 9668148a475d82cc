package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

func TestSysIsWhatKubernetesReads(t *testing.T) {
	n := simnode.Start(t, "dgx-h100")
	for _, g := range n.Server.GPUs {
		attr, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(string(g.PCI), deviceattribute.WithFSFromRoot(n.SysRoot))
		if err != nil {
			t.Fatal(err)
		}
		if got := *attr.Value.StringValue; got != g.RootComplex {
			t.Errorf("root of %s: %s, want %s", g.PCI, got, g.RootComplex)
		}
		vendor, err := os.ReadFile(filepath.Join(n.SysRoot, "bus/pci/devices", string(g.PCI), "vendor"))
		if err != nil || strings.TrimSpace(string(vendor)) != "0x10de" {
			t.Errorf("vendor of %s: %q, %v", g.PCI, vendor, err)
		}
	}
}

func TestDeviceNodesAreNobodysElse(t *testing.T) {
	n := simnode.Start(t, "mixed")
	devices, err := os.ReadFile("/proc/devices")
	if err != nil {
		t.Fatal(err)
	}
	simulated, err := os.ReadFile(filepath.Join(n.ProcRoot, "devices"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(simulated)) {
		major := strings.Fields(line)
		if len(major) != 2 || major[1] == "devices:" {
			continue
		}
		if strings.Contains("\n"+string(devices), "\n"+leftPad(major[0])+" ") {
			t.Errorf("major %s is taken on this machine", major[0])
		}
	}
	for _, node := range []string{"nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1"} {
		_, err := os.Open(filepath.Join(n.DevRoot, "dev", node))
		if want := unix.ENXIO; err == nil || !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("open %s: %v, want %v: a device without a driver", node, err, want)
		}
	}
}

func leftPad(s string) string { return strings.Repeat(" ", 3-len(s)) + s }
