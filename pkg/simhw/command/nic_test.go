package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Every command for NICs does what it says, in one story.
func TestCtlNICs(t *testing.T) {
	n := newNode(t)
	port := func(s simhw.Snapshot) hardware.RDMAPort { return s.NICs[0].RDMA[0].Ports[0] }
	steps := []struct {
		command string
		want    func(simhw.Snapshot) bool
	}{
		{"list", func(s simhw.Snapshot) bool { return len(s.NICs) == 2 && s.Network.DefaultRoutes[0] == "eth0" }},
		{"nic port --nic mlx5_0 --state DOWN --physical-state Disabled", func(s simhw.Snapshot) bool {
			return port(s).State == "DOWN" && port(s).PhysicalState == "Disabled" && s.NICs[0].Downed("mlx5_0", 1) == 1
		}},
		{"nic port --nic 0000:3a:00.0 --port 1 --state ACTIVE", func(s simhw.Snapshot) bool { return port(s).State == "ACTIVE" && port(s).HasSubnetManager }},
		{"nic port --nic ibp58s0 --subnet-manager=false", func(s simhw.Snapshot) bool { return port(s).State == "ACTIVE" && !port(s).HasSubnetManager }},
		{"nic port --nic ibp58s0 --subnet-manager --rate 200", func(s simhw.Snapshot) bool {
			return port(s).HasSubnetManager && port(s).BitsPerSecond == 200e9
		}},
		{"nic port --nic mlx5_0 --state INIT", func(s simhw.Snapshot) bool { return port(s).State == "INIT" }},
		{"nic flap --nic mlx5_1 --times 4 --interval 1ns", func(s simhw.Snapshot) bool { return s.NICs[1].Downed("mlx5_1", 1) == 4 }},
		{"nic rename --nic mlx5_0 --interface ib0", func(s simhw.Snapshot) bool { return s.NICs[0].Interface == "ib0" }},
		{"nic routes --interfaces ib0,eth0", func(s simhw.Snapshot) bool { return strings.Join(s.Network.DefaultRoutes, " ") == "ib0 eth0" }},
		{"nic routes --interfaces=", func(s simhw.Snapshot) bool { return len(s.Network.DefaultRoutes) == 0 }},
		{"nic rename --nic ib0 --interface=", func(s simhw.Snapshot) bool { return s.NICs[0].Interface == "" }},
		{"nic vfs --nic mlx5_0 --count 2", func(s simhw.Snapshot) bool { return len(s.NICs) == 4 && s.NICs[2].Parent == "0000:3a:00.0" }},
		{"nic unplug --nic 0000:3a:00.0", func(s simhw.Snapshot) bool { return len(s.NICs) == 2 && s.NICs[0].Absent }},
		{"nic plug --nic 0000:3a:00.0", func(s simhw.Snapshot) bool { return !s.NICs[0].Absent }},
		{"nic unplug --nic mlx5_1 --for 1h", func(s simhw.Snapshot) bool { return s.NICs[1].Absent && s.NICs[1].Returns != nil }},
		{"nic mode", func(s simhw.Snapshot) bool { return s.Network.ExclusiveRDMA }},
		{"nic mode --exclusive=false", func(s simhw.Snapshot) bool { return !s.Network.ExclusiveRDMA }},
		{"reboot", func(s simhw.Snapshot) bool {
			return s.NICs[0].Interface == "ibp58s0" && s.NICs[1].Absent && s.Network.DefaultRoutes[0] == "eth0"
		}},
	}
	for _, step := range steps {
		out, err := n.ctl(step.command)
		if err != nil {
			t.Fatalf("%s: %v", step.command, err)
		}
		var s simhw.Snapshot
		if err := json.Unmarshal([]byte(out), &s); err != nil || !step.want(s) {
			t.Fatalf("%s: %v: %s", step.command, err, out)
		}
	}
	// The files are those of the last state.
	for path, there := range map[string]bool{"sys/class/infiniband/mlx5_0": true, "sys/class/infiniband/mlx5_1": false, "dev/infiniband/uverbs1": false} {
		if _, err := os.Stat(filepath.Join(n.root, path)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %t", path, err, there)
		}
	}
}

func TestCtlNICRefusals(t *testing.T) {
	n := newNode(t)
	for line, want := range map[string]string{
		"nic plug":                                                 "flag --nic is required",
		"nic plug --nic mlx5_0":                                    "it is there already",
		"nic unplug --nic mlx5_7":                                  `NIC "mlx5_7": there is no such NIC; there are 0000:3a:00.0, 0000:87:00.0`,
		"nic unplug --nic mlx5_0 --for -1s":                        "must not be negative",
		"nic port --nic mlx5_0":                                    "nothing to change",
		"nic port --nic mlx5_0 --port 1":                           "nothing to change",
		"nic port --nic mlx5_0 --state up":                         `state "up" of a port is not known`,
		"nic flap --nic mlx5_0 --times 0":                          "both must be positive",
		"nic rename --nic mlx5_0":                                  "flag --interface is required",
		"nic rename --nic mlx5_0 --interface a/":                   "is no name for an interface",
		"nic vfs --nic mlx5_0 --count 99":                          "0 to 16",
		"nic routes --interfaces lo":                               "there is no such interface",
		"nic mode --exclusive maybe":                               `unexpected argument "maybe"`,
		"files spoil --path sys/class/infiniband/mlx5_7 --missing": "there is no sys/class/infiniband/mlx5_7",
	} {
		if out, err := n.ctl(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", line, out, err, want)
		}
	}
}
