package smi_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/simhw/smi"
	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata/name, without the line that has the time.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s, write it anew with -update (-want +got):\n%s", path, diff)
	}
}

// run is nvidia-smi on a node.
func run(t *testing.T, n *simnode.Node, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command(n.SMI, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func withoutTime(out string) string {
	_, rest, _ := strings.Cut(out, "\n")
	return rest
}

func ctl(t *testing.T, n *simnode.Node, args ...string) {
	t.Helper()
	if _, err := n.Ctl(args...); err != nil {
		t.Fatal(err)
	}
}

func TestWholeGPUs(t *testing.T) {
	n := simnode.Start(t, "dgx-h100")
	ctl(t, n, "load", "--gpu=2", "--pid=4242", "--name=train", "--memory-mib=2048")
	out, code := run(t, n)
	if code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	golden(t, "dgx-h100.summary", withoutTime(out))
	out, _ = run(t, n, "topo", "-m")
	golden(t, "dgx-h100.topo", out)
	const fields = "index,name,pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,mig.mode.current,ecc.errors.uncorrected.volatile.total,driver_version"
	out, _ = run(t, n, "--query-gpu="+fields, "--format=csv", "-i", "0,2")
	golden(t, "dgx-h100.query", out)
}

func TestPartitioned(t *testing.T) {
	n := simnode.Start(t, "mixed")
	ctl(t, n, "mig", "--gpu=0", "--enabled=true")
	ctl(t, n, "create-instance", "--gpu=0", "--profile=1g.10gb", "--start=6")
	ctl(t, n, "create-instance", "--gpu=0", "--profile=3g.40gb", "--start=0")
	for name, args := range map[string][]string{
		"mixed.lgip":  {"mig", "-lgip"},
		"mixed.lgipp": {"mig", "-lgipp", "-i", "0"},
		"mixed.lgi":   {"mig", "-lgi"},
		"mixed.lci":   {"mig", "-lci"},
		"mixed.topo":  {"topo", "-m"},
		"mixed.query": {"--format=csv,noheader,nounits", "--query-gpu=name,mig.mode.current,utilization.gpu,memory.free,clocks.max.sm"},
	} {
		out, code := run(t, n, args...)
		if code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
		golden(t, name, out)
	}
	out, _ := run(t, n)
	golden(t, "mixed.summary", withoutTime(out))
}

func TestNothingToList(t *testing.T) {
	n := simnode.Start(t, "mixed")
	tests := map[string]struct {
		args []string
		want string
	}{
		"MIG off":        {[]string{"mig", "-lgip"}, "No MIG-enabled devices found.\n"},
		"GPU without it": {[]string{"mig", "-lgi", "-i", "1"}, "No MIG-enabled devices found.\n"},
		"no such GPU":    {[]string{"-L", "-i", "7"}, "No devices found.\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if out, code := run(t, n, tc.args...); out != tc.want || code != 6 {
				t.Errorf("exit code %d, %q, want 6, %q", code, out, tc.want)
			}
		})
	}
	ctl(t, n, "mig", "--gpu=0", "--enabled=true")
	if out, code := run(t, n, "mig", "-lgi"); out != "No GPU instances found: Not Found\n" || code != 6 {
		t.Errorf("no instances: exit code %d, %q", code, out)
	}
}

func TestUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown option":   {[]string{"-q"}, "Invalid combination of input arguments: -q\n"},
		"unknown mig":      {[]string{"mig", "-cgi"}, "Option \"-cgi\" is not recognized.\n"},
		"unknown field":    {[]string{"--query-gpu=name,colour", "--format=csv"}, "Field \"colour\" is not a valid field to query.\n"},
		"no format":        {[]string{"--query-gpu=name"}, "--query-gpu needs --format=csv.\n"},
		"unknown format":   {[]string{"--query-gpu=name", "--format=xml"}, "Unrecognized format \"xml\": csv, noheader and nounits exist.\n"},
		"-i without a GPU": {[]string{"-L", "-i"}, "Option -i needs a value.\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := smi.Run("/nowhere", tc.args, &out, &out)
			if code != 2 || !strings.HasPrefix(out.String(), tc.want) || !strings.Contains(out.String(), "--query-gpu=FIELD") {
				t.Errorf("exit code %d, %s", code, out.String())
			}
		})
	}
}

// Distances of NICs on servers where they differ from one to the next: golden, and
// what the legend makes of the catalogue.
func TestTopologyOfNICs(t *testing.T) {
	for _, server := range []string{"dgx-a100", "gb200-tray", "xdr"} {
		t.Run(server, func(t *testing.T) {
			n := simnode.Start(t, server)
			out, code := run(t, n, "topo", "-m")
			if code != 0 {
				t.Errorf("exit code %d: %s", code, out)
			}
			golden(t, server+".topo", out)
		})
	}
}

// A NIC that is gone, or whose files are broken, takes nothing else with it.
func TestTopologyFollowsNICs(t *testing.T) {
	n := simnode.Start(t, "mixed")
	ctl(t, n, "nic", "unplug", "--nic=mlx5_0")
	out, code := run(t, n, "topo", "-m")
	if code != 0 || !strings.Contains(out, "\tGPU1\tNIC0\tCPU") || !strings.HasSuffix(out, "\n  NIC0: mlx5_1\n\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	ctl(t, n, "files", "spoil", "--path=sys/class/infiniband/mlx5_1", "--dangling")
	out, code = run(t, n, "topo", "-m")
	if code != 0 || strings.Contains(out, "NIC") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
