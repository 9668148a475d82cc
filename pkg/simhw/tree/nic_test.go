package tree

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

var update = flag.Bool("update", false, "write the golden files anew")

// text is what there is of NICs and places in a plan: each path with what is in it,
// below its directory.
func (p plan) text() string {
	var b strings.Builder
	last := ""
	byDirectory := func(a, b string) int {
		return cmp.Or(strings.Compare(filepath.Dir(a), filepath.Dir(b)), strings.Compare(a, b))
	}
	for _, path := range slices.SortedFunc(maps.Keys(p), byDirectory) {
		top, _, _ := strings.Cut(path, "/")
		of := top == "sys" || strings.HasPrefix(path, "proc/1/") || strings.HasPrefix(path, "dev/infiniband/")
		// One line for each processor says little; a test of its own looks at them.
		if !of || strings.HasPrefix(path, "sys/devices/system/cpu/") {
			continue
		}
		if dir := filepath.Dir(path); dir != last {
			fmt.Fprintln(&b, dir+"/")
			last = dir
		}
		switch e := p[path]; e.kind {
		case symlink:
			fmt.Fprintf(&b, "\t%s -> %s\n", filepath.Base(path), e.text)
		case node:
			fmt.Fprintf(&b, "\t%s is a device %d:%d, mode %04o\n", filepath.Base(path), e.major, e.minor, e.mode)
		default:
			lines := strings.Split(strings.TrimSuffix(e.text, "\n"), "\n")
			for i := range lines {
				lines[i] = strings.TrimRight(lines[i], " ")
			}
			fmt.Fprintf(&b, "\t%s: %s\n", filepath.Base(path), strings.Join(lines, "\n\t\t"))
		}
	}
	return b.String()
}

// planOf is what is wanted for a state; nothing is made.
func planOf(t *testing.T, s simhw.Snapshot) plan {
	t.Helper()
	server, _, err := catalog.LoadServer(s.Server)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Server: server, Majors: testMajors}).plan(s)
}

func freshState(t *testing.T, name string) simhw.Snapshot {
	t.Helper()
	server, _, err := catalog.LoadServer(name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := simhw.NewEngine(server, simhw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e.Snapshot()
}

// Every path and content of /sys, of the routes and of /dev/infiniband, for every
// server with NICs.
func TestGolden(t *testing.T) {
	for _, name := range catalog.Servers() {
		s := freshState(t, name)
		if len(s.NICs) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := planOf(t, s).text()
			path := filepath.Join("testdata", name+".tree")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s; write it anew with -update (-want +got):\n%s", path, diff)
			}
		})
	}
}

// A server without NICs has loaded nothing for them.
func TestWithoutNICs(t *testing.T) {
	for path := range planOf(t, freshState(t, "a30x4")) {
		if strings.Contains(path, "infiniband") || strings.Contains(path, "ib_core") || strings.Contains(path, "rdma_cm") {
			t.Errorf("there is %s", path)
		}
	}
}

func TestProcessors(t *testing.T) {
	p := planOf(t, freshState(t, "dgx-a100"))
	tests := map[string]string{
		"sys/devices/system/cpu/cpu0/topology/physical_package_id":   "0\n",
		"sys/devices/system/cpu/cpu64/topology/physical_package_id":  "1\n",
		"sys/devices/system/cpu/cpu191/topology/physical_package_id": "0\n",
		"sys/devices/system/cpu/cpu255/topology/physical_package_id": "1\n",
		"sys/devices/system/node/node5/cpulist":                      "80-95,208-223\n",
		"sys/devices/system/node/node5/distance":                     "21 21 21 21 12 10 12 12\n",
		"sys/devices/system/node/online":                             "0-7\n",
	}
	for path, want := range tests {
		if got := p[path].text; got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if _, ok := p["sys/devices/system/cpu/cpu256/topology/physical_package_id"]; ok {
		t.Error("there is a processor 256")
	}
}

// changes lists what is different between two plans: "-" is gone, "+" is new, "~" has
// another content.
func changes(before, after plan) []string {
	content := func(e entry) string { return strings.TrimSuffix(e.text, "\n") }
	var out []string
	for path, e := range before {
		if next, ok := after[path]; !ok {
			out = append(out, "-"+path)
		} else if next != e {
			out = append(out, fmt.Sprintf("~%s: %s", path, content(next)))
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			out = append(out, "+"+path)
		}
	}
	slices.Sort(out)
	return out
}

func TestTreeFollowsNICs(t *testing.T) {
	const device = "sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:39:00.0/0000:3a:00.0"
	const port = device + "/infiniband/mlx5_0/ports/1/"
	no := false
	tests := map[string]struct {
		do   func(*simhw.Engine) error
		want []string
	}{
		"port down": {func(e *simhw.Engine) error { return e.SetPort("mlx5_0", simhw.PortChange{State: "DOWN"}) }, []string{
			"~" + port + "counters/link_downed: 1", "~" + port + "lid: 0xffff", "~" + port + "phys_state: 2: Polling",
			"~" + port + "rate: 10 Gb/sec (4X SDR)", "~" + port + "sm_lid: 0x0", "~" + port + "state: 1: DOWN",
			"~" + device + "/net/ibp58s0/operstate: down", "~" + device + "/net/ibp58s0/speed: -1",
		}},
		"INIT": {func(e *simhw.Engine) error { return e.SetPort("mlx5_0", simhw.PortChange{State: "INIT"}) }, []string{
			"~" + port + "lid: 0xffff", "~" + port + "sm_lid: 0x0", "~" + port + "state: 2: INIT",
			"~" + device + "/net/ibp58s0/operstate: down", "~" + device + "/net/ibp58s0/speed: -1",
		}},
		"no subnet manager": {func(e *simhw.Engine) error { return e.SetPort("mlx5_0", simhw.PortChange{SubnetManager: &no}) }, []string{"~" + port + "sm_lid: 0x0"}},
		"flapping":          {func(e *simhw.Engine) error { return e.Flap("mlx5_0", 0, 7, 0) }, []string{"~" + port + "counters/link_downed: 7"}},
		"slower": {func(e *simhw.Engine) error { return e.SetPort("mlx5_0", simhw.PortChange{GigabitsPerSecond: 200}) }, []string{
			"~" + port + "rate: 200 Gb/sec (4X HDR)", "~" + device + "/net/ibp58s0/speed: 200000",
		}},
		"route over a NIC": {func(e *simhw.Engine) error { return e.SetDefaultRoutes([]string{"ibp58s0"}) }, []string{
			"~proc/1/net/route: " + strings.TrimSuffix(strings.Replace(planOf(t, freshState(t, "mixed"))["proc/1/net/route"].text,
				"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0   ", "ibp58s0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0", 1), "\n"),
		}},
		"exclusive": {func(e *simhw.Engine) error { return e.SetExclusiveRDMA(true) }, []string{"~sys/module/ib_core/parameters/netns_mode: N"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server, _, err := catalog.LoadServer("mixed")
			if err != nil {
				t.Fatal(err)
			}
			e, err := simhw.NewEngine(server, simhw.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := planOf(t, e.Snapshot())
			if err := tc.do(e); err != nil {
				t.Fatal(err)
			}
			slices.Sort(tc.want)
			if diff := gocmp.Diff(tc.want, changes(before, planOf(t, e.Snapshot()))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// paths are those in which a change is seen, without what is below them.
func tops(changed []string) []string {
	var out []string
	for _, c := range changed {
		covered := slices.ContainsFunc(out, func(dir string) bool { return strings.HasPrefix(c, dir+"/") })
		if !covered {
			out = append(out, c)
		}
	}
	return out
}

// What a NIC has comes and goes as a whole, links and nodes included, and the rest
// stays as it is.
func TestFunctionsComeAndGo(t *testing.T) {
	tests := map[string]struct {
		server string
		do     func(*simhw.Engine) error
		// parts must be in every path that comes or goes.
		parts []string
		// contain must be among the changes.
		contain []string
	}{
		"unplugged": {"xdr", func(e *simhw.Engine) error { return e.UnplugNIC("mlx5_0", 0) },
			[]string{"0000:18:00.0", "mlx5_0", "smi1", "uverbs0", "umad", "issm", "ibp24s0"},
			[]string{"-dev/infiniband/uverbs0", "-dev/infiniband/umad4", "-dev/infiniband/issm4", "-sys/class/infiniband/smi1",
				"-sys/class/infiniband_mad/issm1", "-sys/class/infiniband_verbs/uverbs0", "-sys/class/net/ibp24s0", "-sys/bus/pci/devices/0000:18:00.0",
				"-sys/bus/pci/drivers/mlx5_core/0000:18:00.0"}},
		"renamed": {"xdr", func(e *simhw.Engine) error { return e.RenameInterface("mlx5_0", "ib0") },
			[]string{"/net/", "/ndevs/"},
			[]string{"-sys/class/net/ibp24s0", "+sys/class/net/ib0", "+sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:08.0/0000:18:00.0/net/ib0/address"}},
		"virtual functions": {"dgx-h100", func(e *simhw.Engine) error { return e.SetVFs("mlx5_1", 1) },
			[]string{"0000:29:00.1", "virtfn0", "sriov_numvfs", "mlx5_10", "uverbs10", "umad10", "enp41s0f0v0"},
			[]string{"+sys/bus/pci/devices/0000:29:00.1", "+dev/infiniband/uverbs10", "+sys/class/net/enp41s0f0v0",
				"+sys/devices/pci0000:26/0000:26:01.0/0000:27:00.0/0000:28:00.0/0000:29:00.0/virtfn0",
				"+sys/devices/pci0000:26/0000:26:01.0/0000:27:00.0/0000:28:00.0/0000:29:00.1/physfn",
				"~sys/devices/pci0000:26/0000:26:01.0/0000:27:00.0/0000:28:00.0/0000:29:00.0/sriov_numvfs: 1"}},
		"interface of RoCE in a pod": {"roce-vf", func(e *simhw.Engine) error { return e.RenameInterface("mlx5_2", "") },
			[]string{"enp24s0f0v0", "/ports/1/gid"},
			[]string{"-sys/class/net/enp24s0f0v0", "~sys/devices/pci0000:14/0000:14:01.0/0000:15:00.0/0000:16:18.0/0000:18:00.1/infiniband/mlx5_2/ports/1/gids/0: " + noGID}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tr, e := newTreeOf(t, tc.server)
			first := e.Snapshot()
			if err := tr.Sync(first); err != nil {
				t.Fatal(err)
			}
			checkLinks(t, tr.Root)
			made, before := files(t, tr.Root), planOf(t, first)
			if err := tc.do(e); err != nil {
				t.Fatal(err)
			}
			got := changes(before, planOf(t, e.Snapshot()))
			for _, c := range got {
				if !slices.ContainsFunc(tc.parts, func(part string) bool { return strings.Contains(c, part) }) {
					t.Errorf("changed: %s", c)
				}
			}
			for _, c := range tc.contain {
				if !slices.Contains(got, c) {
					t.Errorf("no %s among %v", c, tops(got))
				}
			}
			if err := tr.Sync(e.Snapshot()); err != nil {
				t.Fatal(err)
			}
			checkContents(t, tr, e.Snapshot())
			checkLinks(t, tr.Root)
			// Another daemon undoes it, which knows only what it finds.
			tr = New(tr.Config)
			if err := tr.Sync(first); err != nil {
				t.Fatal(err)
			}
			if diff := difference(made, files(t, tr.Root)); len(diff) > 0 {
				t.Errorf("not as before: %v", diff)
			}
			checkLinks(t, tr.Root)
		})
	}
}

// checkLinks wants every link below /sys to lead somewhere below the root, and every
// device node to have the numbers that its class shows.
func checkLinks(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "sys"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || !strings.HasPrefix(target, filepath.Join(root, "sys/")) {
			t.Errorf("%s leads to %q, %v", path, target, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, class := range []string{"infiniband_verbs", "infiniband_mad", "misc"} {
		devs, err := filepath.Glob(filepath.Join(root, "sys/class", class, "*/dev"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dev := range devs {
			want, err := os.ReadFile(dev)
			var st unix.Stat_t
			err = errors.Join(err, unix.Stat(filepath.Join(root, "dev/infiniband", filepath.Base(filepath.Dir(dev))), &st))
			if got := fmt.Sprintf("%d:%d\n", unix.Major(st.Rdev), unix.Minor(st.Rdev)); err != nil || got != string(want) {
				t.Errorf("%s: device node has %q, want %q, %v", dev, got, want, err)
			}
			seen++
		}
	}
	nodes, err := os.ReadDir(filepath.Join(root, "dev/infiniband"))
	if err != nil || len(nodes) != seen {
		t.Errorf("%d device nodes for %d entries of the classes, %v", len(nodes), seen, err)
	}
}

// A path through a class is spoiled where it leads.
func TestSpoiledNIC(t *testing.T) {
	tr, e := newTreeOf(t, "mixed")
	s := e.Snapshot()
	if err := tr.Sync(s); err != nil {
		t.Fatal(err)
	}
	minus, unbound := "-1\n", "sys/bus/pci/devices/0000:3a:00.0/driver"
	for path, f := range map[string]Fault{
		"sys/class/infiniband/mlx5_0/ports/1/state":     {Unreadable: true},
		"sys/class/infiniband/mlx5_0/device/numa_node":  {Content: &minus},
		"sys/class/infiniband/mlx5_1":                   {Dangling: true},
		unbound:                                         {Missing: true},
		"sys/class/net/ibp135s0/address":                {Missing: true},
		"sys/class/infiniband_verbs/uverbs1/ibdev":      {Content: new("")},
		"sys/class/infiniband/mlx5_0/ports/1/gid_attrs": {Missing: true},
		"dev/infiniband/uverbs0":                        {Missing: true},
	} {
		if err := tr.SetFault(path, f, 0); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	const missing = "no such file or directory"
	for path, want := range map[string]string{
		"sys/class/infiniband/mlx5_0/ports/1/state":             "is a directory",
		"sys/bus/pci/devices/0000:3a:00.0/numa_node":            "-1\n",
		"sys/class/infiniband/mlx5_1":                           "link to nowhere",
		unbound:                                                 missing,
		"sys/class/net/ibp135s0/address":                        missing,
		"sys/class/infiniband_verbs/uverbs1/ibdev":              "",
		"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0": missing,
		"dev/infiniband/uverbs0":                                missing,
	} {
		if got := found(tr.Root, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if err := tr.ClearFault("sys/class/infiniband/mlx5_0/ports/1/state"); err != nil {
		t.Error(err)
	}
	if got := found(tr.Root, "sys/class/infiniband/mlx5_0/ports/1/state"); got != "4: ACTIVE\n" {
		t.Errorf("made right: %q", got)
	}
	if err := tr.ClearFault(""); err != nil {
		t.Error(err)
	}
	checkContents(t, tr, s)
	checkLinks(t, tr.Root)
}
