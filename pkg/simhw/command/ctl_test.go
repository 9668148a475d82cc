package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/pkg/simhw/serve"
	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// node is what ctl talks to, without NVML clients.
type node struct {
	t      *testing.T
	root   string
	engine *simhw.Engine
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make device nodes (mknod)")
	}
	server, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, name := range []string{"libnvidia-ml.so", "libcuda.so", "program"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := tree.New(tree.Config{Root: root, Libraries: root, Executable: filepath.Join(root, "program"), Server: server,
		Majors: serve.Majors{GPU: 195, Capability: 384, UVM: 385, InfiniBand: 231, Misc: 386}})
	engine, err := simhw.NewEngine(server, simhw.Options{Observe: func(s simhw.Snapshot) {
		if err := files.Sync(s); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listenControl(root)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: newControl(engine, files)}
	ended := make(chan error)
	go func() { ended <- web.Serve(l) }()
	t.Cleanup(func() {
		web.Close()
		<-ended
	})
	return &node{t: t, root: root, engine: engine}
}

// ctl runs a command, given in one line.
func (n *node) ctl(line string) (string, error) {
	var out, complaints bytes.Buffer
	err := runCtl(n.t.Context(), append(strings.Fields(line), "--root="+n.root), &out, &complaints)
	return out.String(), err
}

// Every command does what it says, in one story.
func TestCtl(t *testing.T) {
	n := newNode(t)
	steps := []struct {
		command string
		want    func(simhw.Snapshot) bool
	}{
		{"list", func(s simhw.Snapshot) bool { return len(s.GPUs) == 2 }},
		{"mig --gpu 0", func(s simhw.Snapshot) bool { return s.GPUs[0].MIGEnabled }},
		{"create-instance --profile 1g.10gb --start 2", func(s simhw.Snapshot) bool { return len(s.GPUs[0].Instances[0].Compute) == 1 }},
		{"destroy-instance --id ID", func(s simhw.Snapshot) bool { return len(s.GPUs[0].Instances) == 0 }},
		{"create-instance --profile 1g.10gb --no-compute", func(s simhw.Snapshot) bool {
			return len(s.GPUs[0].Instances) == 1 && len(s.GPUs[0].Instances[0].Compute) == 0
		}},
		{"reset --gpu 0", func(s simhw.Snapshot) bool { return len(s.GPUs[0].Instances) == 0 && s.GPUs[0].MIGEnabled }},
		{"profile --profile 1g.10gb --count 3", func(simhw.Snapshot) bool { return true }},
		{"mig --enabled=false", func(s simhw.Snapshot) bool { return !s.GPUs[0].MIGEnabled }},
		{"load --pid 77 --memory-mib 100", func(s simhw.Snapshot) bool { return s.GPUs[0].Processes[0].PID == 77 }},
		{"unload --pid 77", func(s simhw.Snapshot) bool { return len(s.GPUs[0].Processes) == 0 }},
		{"lose --gpu 1", func(s simhw.Snapshot) bool { return s.GPUs[1].Lost }},
		{"unplug --gpu 1", func(s simhw.Snapshot) bool { return s.GPUs[1].Absent }},
		{"plug --gpu 1", func(s simhw.Snapshot) bool { return !s.GPUs[1].Absent }},
		{"replace --gpu 1", func(s simhw.Snapshot) bool { return s.GPUs[1].Generation == 1 }},
		{"driver unload --nodes", func(s simhw.Snapshot) bool { return s.Driver.Unloaded && s.Driver.NodesGone }},
		{"driver load", func(s simhw.Snapshot) bool { return !s.Driver.Unloaded && !s.Driver.NodesGone }},
		{"driver mismatch", func(s simhw.Snapshot) bool { return s.Driver.Mismatch && !s.Driver.Unloaded }},
		{"driver set --version 595.58.03 --bus-ids lower", func(s simhw.Snapshot) bool {
			return s.Driver.Version == "595.58.03" && s.Driver.BusIDs == simhw.BusIDLower
		}},
		{"driver set --version=", func(s simhw.Snapshot) bool { return s.Driver.Version == "" }},
		{"fabric --gpu 0 --state in-progress", func(s simhw.Snapshot) bool { return s.GPUs[0].Health.Fabric == simhw.FabricInProgress }},
		{"fabric --gpu 0", func(s simhw.Snapshot) bool { return s.GPUs[0].Health.Fabric == simhw.FabricJoined }},
		{"reboot", func(s simhw.Snapshot) bool { return s.Boot == 2 && s.Driver.Version == "580.95.05" }},
	}
	for _, step := range steps {
		if in := n.engine.Snapshot().GPUs[0].Instances; len(in) > 0 {
			step.command = strings.ReplaceAll(step.command, "ID", strconv.Itoa(in[0].ID))
		}
		out, err := n.ctl(step.command)
		if err != nil {
			t.Fatalf("%s: %v", step.command, err)
		}
		var s simhw.Snapshot
		if err := json.Unmarshal([]byte(out), &s); err != nil || !step.want(s) {
			t.Fatalf("%s: %v: %s", step.command, err, out)
		}
	}
}

func TestCtlFaults(t *testing.T) {
	n := newNode(t)
	var f simhw.Fault
	out, err := n.ctl("fault add --call nvmlGpuInstanceDestroy --gpu 0 --instance 3 --times 5 --return IN_USE --delay 1s")
	if err == nil {
		err = json.Unmarshal([]byte(out), &f)
	}
	if err != nil || f.ID != 1 || *f.GPU != 0 || *f.Instance != 3 || f.Times != 5 || simhw.CodeName(f.Return) != "IN_USE" {
		t.Fatalf("added %+v, %v", f, err)
	}
	for _, line := range []string{"fault add --call * --block", "fault release --id 2", "fault clear --id 2", "files spoil --path dev/nvidia0 --missing --for 1h", "files list", "stats"} {
		if _, err := n.ctl(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if all := n.engine.Faults(); len(all) != 1 || all[0].ID != 1 {
		t.Errorf("left: %+v", all)
	}
	if _, err := os.Stat(filepath.Join(n.root, "dev/nvidia0")); err == nil {
		t.Error("the spoiled device node is there")
	}
	if out, err := n.ctl("files clear"); err != nil || strings.TrimSpace(out) != "{}" {
		t.Errorf("files clear: %q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(n.root, "dev/nvidia0")); err != nil {
		t.Error(err)
	}
}

func TestCtlRefusals(t *testing.T) {
	n := newNode(t)
	for line, want := range map[string]string{
		"mig --gpu 1":                       "switch MIG mode on GPU 1: NOT_SUPPORTED: MIG needs a model that can",
		"mig --gpu 7":                       "INVALID_ARGUMENT: list shows which GPUs there are",
		"create-instance --profile 1g.10gb": "NOT_SUPPORTED",
		"create-instance --profile 9g.99gb": `no MIG profile "9g.99gb": it has ["1g.10gb"`,
		"destroy-instance --id 3":           "NOT_FOUND: list shows",
		"plug --gpu 0":                      "there is a GPU in the slot already",
		"unplug --gpu 4":                    "slots go from 0 to 1",
		"load --instance 3":                 "its MIG mode is off",
		"unload --pid 5":                    "process 5 does not run",
		"driver set --bus-ids roman":        "use one of",
		"fault add --call nvmlDeviceGetUuid --return IN_USE":              `does not serve "nvmlDeviceGetUuid"`,
		"fault add --call nvmlDeviceGetUUID":                              "needs an effect",
		"fabric --state odd":                                              `--state is "odd", must be one of ["failed"`,
		"fault clear --id 9":                                              "there is no such fault",
		"files spoil --path dev/nvidia0":                                  "exactly one of",
		"files spoil --path dev/nvidia7 --missing":                        "there is no dev/nvidia7",
		"files clear --path dev/nvidia0":                                  "nothing is wrong with dev/nvidia0",
		"profile --gpu 1 --profile 1g.10gb":                               "no MIG profiles",
		"fault add --call nvmlDeviceGetUUID --gpu 5 --return GPU_IS_LOST": "slots go from 0 to 1",
	} {
		if out, err := n.ctl(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", line, out, err, want)
		}
	}
}

// Lines come until they are interrupted, one for each change.
func TestCtlWatch(t *testing.T) {
	n := newNode(t)
	ctx, stop := context.WithCancel(t.Context())
	lines := &lineCounter{seen: make(chan string, 8)}
	ended := make(chan error)
	go func() { ended <- runCtl(ctx, []string{"watch", "--root=" + n.root}, lines, lines) }()
	var s simhw.Snapshot
	for i, enabled := range []bool{false, true, false} {
		if i > 0 {
			if _, ret := n.engine.SetMIGMode(0, enabled); ret != 0 {
				t.Fatal(ret)
			}
		}
		if err := json.Unmarshal([]byte(<-lines.seen), &s); err != nil || s.GPUs[0].MIGEnabled != enabled {
			t.Errorf("line %d: %v, %+v", i, err, s)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

// lineCounter hands on each line that is written.
type lineCounter struct {
	rest string
	seen chan string
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		l.seen <- line
	}
}
