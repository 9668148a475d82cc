package sysfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/sysfs"
)

// machine is a sysfs and a procfs that a test builds as the kernel does.
type machine struct {
	t          testing.TB
	root, proc string
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), proc: t.TempDir()}
	m.mkdir("bus/pci/devices")
	return m
}

func (m *machine) mkdir(name string) {
	m.t.Helper()
	must(m.t, os.MkdirAll(filepath.Join(m.root, name), 0o755))
}

// write writes files below a directory, each with a newline as the kernel does.
func (m *machine) write(dir string, files map[string]string) {
	m.t.Helper()
	for name, content := range files {
		m.mkdir(filepath.Dir(filepath.Join(dir, name)))
		must(m.t, os.WriteFile(filepath.Join(m.root, dir, name), []byte(content+"\n"), 0o644))
	}
}

// link makes name a relative link to target; both are below the root.
func (m *machine) link(target, name string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(name))
	rel, err := filepath.Rel(filepath.Dir(name), target)
	must(m.t, err)
	must(m.t, os.Symlink(rel, filepath.Join(m.root, name)))
}

func (m *machine) remove(name string) {
	m.t.Helper()
	must(m.t, os.RemoveAll(filepath.Join(m.root, name)))
}

// rest adds to a function and its RDMA device with one port what else the kernel
// shows of them (Documentation/ABI, sysfs-bus-pci, sysfs-class-net and
// sysfs-class-infiniband). It is nothing that a NIC is told by.
func (m *machine) rest(function, rdma, netdev string) {
	m.t.Helper()
	m.link("bus/pci/drivers/mlx5_core", filepath.Join(function, "driver"))
	m.write("bus/pci/drivers/mlx5_core", map[string]string{"uevent": ""})
	m.write(function, map[string]string{
		"class": "0x020700", "vendor": "0x15b3", "device": "0x1021", "subsystem_vendor": "0x15b3", "subsystem_device": "0x0041",
		"revision": "0x00", "modalias": "pci:v000015B3d00001021sv000015B3sd00000041bc02sc07i00", "local_cpulist": "0-55",
		"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "16", "max_link_width": "16",
		"sriov_totalvfs": "16", "sriov_numvfs": "0",
	})
	m.write(filepath.Join(function, "infiniband", rdma), map[string]string{
		"sys_image_guid": "0c42:a103:00c6:cf52", "node_type": "1: CA", "node_desc": "host HCA-1", "hw_rev": "0", "hw_counters/lifespan": "12",
	})
	m.write(filepath.Join(function, "infiniband", rdma, "ports/1"), map[string]string{
		"lid": "0x2", "lid_mask_count": "0", "sm_sl": "0", "cap_mask": "0xa751e848", "pkeys/0": "0xffff",
		"gid_attrs/types/0": "IB/RoCE v1", "gid_attrs/ndevs/0": netdev, "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
		"counters/link_downed": "0", "counters/port_xmit_wait": "17", "hw_counters/out_of_sequence": "0",
	})
	m.write(filepath.Join(function, "net", netdev), map[string]string{
		"address": "00:00:10:49:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:c6:cf:53", "type": "32", "mtu": "2044", "operstate": "up", "speed": "400000",
	})
}

// function makes the PCI function with the path below /sys/devices and returns its
// directory.
func (m *machine) function(path string) string {
	m.t.Helper()
	dir := filepath.Join("devices", path)
	m.write(dir, map[string]string{"numa_node": "0"})
	m.link(dir, filepath.Join("bus/pci/devices", filepath.Base(path)))
	return dir
}

// rdma gives the function an RDMA device with one InfiniBand port.
func (m *machine) rdma(function, name string) string {
	m.t.Helper()
	dir := filepath.Join(function, "infiniband", name)
	m.write(dir, map[string]string{
		"node_guid": "0c42:a103:00c6:cf52", "fw_ver": "28.39.3004", "hca_type": "MT4129", "board_id": "MT_0000000838",
	})
	m.port(dir, 1)
	m.link(function, filepath.Join(dir, "device"))
	m.link(dir, filepath.Join("class/infiniband", name))
	return dir
}

// port gives an RDMA device an active InfiniBand port.
func (m *machine) port(rdma string, number int) string {
	m.t.Helper()
	dir := filepath.Join(rdma, "ports", fmt.Sprint(number))
	m.write(dir, map[string]string{
		"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
		"sm_lid": "0x1", "gids/0": "fe80:0000:0000:0000:0c42:a103:00c6:cf53",
	})
	return dir
}

// ethernet makes a port one of RoCE.
func (m *machine) ethernet(port string) {
	m.t.Helper()
	m.write(port, map[string]string{
		"link_layer": "Ethernet", "rate": "100 Gb/sec (4X EDR)", "sm_lid": "0x0", "gids/0": "fe80:0000:0000:0000:0e42:a1ff:fec6:cf53",
	})
}

// node makes the node of an RDMA device: uverbs without a port (0), umad and issm with one.
func (m *machine) node(function, name, rdma string, port, minor int) string {
	m.t.Helper()
	class := "infiniband_mad"
	files := map[string]string{"ibdev": rdma, "dev": fmt.Sprintf("231:%d", minor)}
	if strings.HasPrefix(name, "uverbs") {
		class = "infiniband_verbs"
	} else {
		files["port"] = fmt.Sprint(port)
	}
	dir := filepath.Join(function, class, name)
	m.write(dir, files)
	m.link(dir, filepath.Join("class", class, name))
	m.write(filepath.Join("class", class), map[string]string{"abi_version": "6"})
	return dir
}

// netdev gives the function an interface.
func (m *machine) netdev(function, name string) string {
	m.t.Helper()
	dir := filepath.Join(function, "net", name)
	m.write(dir, map[string]string{"dev_port": "0"})
	m.link(function, filepath.Join(dir, "device"))
	m.link(dir, filepath.Join("class/net", name))
	return dir
}

// over makes a virtual interface above another, as a member of it if it is a bond or
// a bridge.
func (m *machine) over(name, lower string, member bool) {
	m.t.Helper()
	dir := filepath.Join("devices/virtual/net", name)
	m.mkdir(dir)
	if _, err := os.Lstat(filepath.Join(m.root, "class/net", name)); err != nil {
		m.link(dir, filepath.Join("class/net", name))
	}
	below, err := filepath.EvalSymlinks(filepath.Join(m.root, "class/net", lower))
	must(m.t, err)
	below, err = filepath.Rel(m.root, below)
	must(m.t, err)
	m.link(below, filepath.Join(dir, "lower_"+lower))
	m.link(dir, filepath.Join(below, "upper_"+name))
	if member {
		m.link(dir, filepath.Join(below, "master"))
	}
}

// routes writes the host's routing table of IPv4, one default route for each interface.
func (m *machine) routes(defaults ...string) {
	m.t.Helper()
	lines := []string{
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
		"docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
	}
	for i, name := range defaults {
		lines = append(lines, fmt.Sprintf("%s\t00000000\t010200C0\t0003\t0\t0\t%d\t00000000\t0\t0\t0", name, 100*i))
	}
	must(m.t, os.MkdirAll(filepath.Join(m.proc, "1/net"), 0o755))
	must(m.t, os.WriteFile(filepath.Join(m.proc, "1/net/route"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// The paths of NICs and what is above them, as in sysfs.
const (
	pathA = "pci0000:07/0000:07:01.0/0000:08:00.0/0000:09:00.0/0000:0a:00.0"
	pathB = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
	pathC = "pci0000:48/0000:48:01.0/0000:49:00.0"
)

// threeNICs is a machine with InfiniBand NICs at the three paths, mlx5_0 to mlx5_2
// with the interfaces ib0 to ib2, and with other functions between them.
func threeNICs(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.function("pci0000:15/0000:15:01.0")
	m.netdev(m.function("pci0000:00/0000:00:1f.6"), "eno1")
	for i, path := range []string{pathA, pathB, pathC} {
		m.infiniBand(path, i)
	}
	return m
}

// infiniBand makes the NIC with the index, complete with nodes and interface.
func (m *machine) infiniBand(path string, i int) string {
	m.t.Helper()
	f, name := m.function(path), fmt.Sprintf("mlx5_%d", i)
	m.rdma(f, name)
	m.node(f, fmt.Sprintf("uverbs%d", i), name, 0, 192+i)
	m.node(f, fmt.Sprintf("umad%d", i), name, 1, i)
	m.node(f, fmt.Sprintf("issm%d", i), name, 1, 64+i)
	m.netdev(f, fmt.Sprintf("ib%d", i))
	return f
}

// read discovers the machine's NICs; whatever is left out has to be expected by the
// caller, in the order given, by a part of its reason.
func (m *machine) read(reasons ...string) []hardware.NIC {
	m.t.Helper()
	nics, notes, err := sysfs.New(m.root).WithProc(m.proc).NICs(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for i, note := range notes {
		if i >= len(reasons) || !strings.Contains(note.Error(), reasons[i]) {
			m.t.Errorf("unexpected: %v", note)
		}
	}
	if len(notes) < len(reasons) {
		m.t.Errorf("got %d reasons, want one for each of %q", len(notes), reasons)
	}
	return nics
}

// names are the names of RDMA devices for traffic, by address.
func names(nics []hardware.NIC) map[hardware.PCIAddress]string {
	out := map[hardware.PCIAddress]string{}
	for _, n := range nics {
		out[n.PCI] = n.RDMA[0].Name
	}
	return out
}
