package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/test/testkit/program"
)

// infiniBand is a NIC as a filter sees it.
func infiniBand(pci hardware.PCIAddress, name string, uplink bool) hardware.NIC {
	return hardware.NIC{PCI: pci, Uplink: uplink, RDMA: []hardware.RDMADevice{{Name: name, Ports: []hardware.RDMAPort{
		{Number: 1, LinkLayer: hardware.LinkLayerInfiniBand, State: hardware.PortActive, BitsPerSecond: 400e9},
	}}}}
}

func TestFilterOfNICs(t *testing.T) {
	nics := []hardware.NIC{infiniBand("0000:0a:00.0", "mlx5_0", true), infiniBand("0000:0b:00.0", "mlx5_1", false), infiniBand("0000:0c:00.0", "mlx5_2", false)}
	rails := map[hardware.PCIAddress]int{"0000:0b:00.0": 0, "0000:0c:00.0": 1}
	const attributes = `device.attributes["cleave.dev"]`
	tests := map[string]struct {
		expression string
		want       []hardware.PCIAddress
		reason     string
	}{
		"all, the one with the default route too (RDMA-06)": {expression: `true`, want: addresses(nics)},
		"none":            {expression: `false`},
		"by an attribute": {expression: attributes + `.rdmaDevice != "mlx5_1"`, want: []hardware.PCIAddress{"0000:0a:00.0", "0000:0c:00.0"}},
		"by a capacity":   {expression: `device.capacity["cleave.dev"].bandwidth.isGreaterThan(quantity("200G"))`, want: addresses(nics)},
		"by the rail, which one has not": {expression: attributes + `.rail == 1`, want: []hardware.PCIAddress{"0000:0c:00.0"},
			reason: "leave out NIC 0000:0a:00.0: evaluate expression"},
	}
	path := program.Build(t, "cleave-filter")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			p := discovering(t, Config{DriverName: "cleave.dev", NICs: true, NICFilter: tc.expression, FilterProgram: path, Rails: rails}, &kernel{nics: nics})
			found, err := p.discover(klog.NewContext(t.Context(), logger), nobody)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, addresses(found.NICs)); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(rails, found.rails); diff != "" {
				t.Errorf("rails, which do not follow the filter (-want +got):\n%s", diff)
			}
			if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log, tc.reason) {
				t.Errorf("the log lacks %q:\n%s", tc.reason, log)
			}
		})
	}
}

// counting is a program in the place of cleave-filter that counts how often it runs and
// takes the first device only; without the file "works" it fails.
func counting(t *testing.T, devices int) (path string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	verdicts := `{"matches":true}` + strings.Repeat(`,{"matches":false}`, devices-1)
	script := fmt.Sprintf("#!/bin/sh\ncd %s; echo >> runs\ntest -e works || exit 1\necho '{\"verdicts\":[%s]}'\n", dir, verdicts)
	path = filepath.Join(dir, "cleave-filter")
	for name, content := range map[string]string{path: script, filepath.Join(dir, "works"): ""} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path, func() int {
		raw, err := os.ReadFile(filepath.Join(dir, "runs"))
		if err != nil {
			t.Fatal(err)
		}
		return len(raw)
	}
}

// TestFilterIsAskedOnce: only when NICs are others; and while it cannot be asked, what it
// has said before holds.
func TestFilterIsAskedOnce(t *testing.T) {
	first, second := infiniBand("0000:0a:00.0", "mlx5_0", false), infiniBand("0000:0b:00.0", "mlx5_1", false)
	k := &kernel{nics: []hardware.NIC{first, second}}
	path, runs := counting(t, 2)
	p := discovering(t, Config{DriverName: "cleave.dev", NICs: true, NICFilter: "it says what", FilterProgram: path}, k)
	expect := func(what string, wantRuns int, want ...hardware.PCIAddress) {
		t.Helper()
		found, err := p.discover(t.Context(), nobody)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, addresses(found.NICs)); diff != "" {
			t.Errorf("%s: NICs (-want +got):\n%s", what, diff)
		}
		if got := runs(); got != wantRuns {
			t.Errorf("%s: the program ran %d times, want %d", what, got, wantRuns)
		}
	}
	expect("at first", 1, first.PCI)
	expect("the same again", 1, first.PCI)
	k.nics = []hardware.NIC{first, infiniBand("0000:0b:00.0", "mlx5_7", false)}
	expect("another name", 2, first.PCI)
	if err := os.Remove(filepath.Join(filepath.Dir(path), "works")); err != nil {
		t.Fatal(err)
	}
	k.nics = append(k.nics, infiniBand("0000:0c:00.0", "mlx5_2", false))
	expect("it fails", 3, first.PCI)
	expect("it fails again", 4, first.PCI)
}
