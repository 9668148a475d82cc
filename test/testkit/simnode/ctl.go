package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// Ctl runs cleave-simhw ctl on the node and returns what it prints.
func (n *Node) Ctl(args ...string) (string, error) {
	args = append(append([]string{"ctl"}, args...), "--root="+n.Root)
	out, err := exec.Command(n.program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Do is Ctl for commands that must succeed.
func (n *Node) Do(args ...string) {
	n.t.Helper()
	if _, err := n.Ctl(args...); err != nil {
		n.t.Fatal(err)
	}
}

// State is the hardware's, seen from outside NVML.
func (n *Node) State() simhw.Snapshot {
	n.t.Helper()
	var s simhw.Snapshot
	n.decode(&s, "list")
	return s
}

// Stats counts the NVML calls of all clients.
func (n *Node) Stats() simhw.Stats {
	n.t.Helper()
	var s simhw.Stats
	n.decode(&s, "stats")
	return s
}

// Fault lets NVML calls go wrong; the arguments are those of ctl fault add.
func (n *Node) Fault(args ...string) simhw.Fault {
	n.t.Helper()
	var f simhw.Fault
	n.decode(&f, append([]string{"fault", "add"}, args...)...)
	return f
}

// AwaitHeld returns once a fault that blocks holds a call.
func (n *Node) AwaitHeld(f simhw.Fault) {
	n.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var all []simhw.Fault
		n.decode(&all, "fault", "list")
		for _, g := range all {
			if g.ID == f.ID {
				return g.Waiting > 0, nil
			}
		}
		return false, fmt.Errorf("fault %d is gone", f.ID)
	})
	if err != nil {
		n.t.Fatalf("wait for a call that fault %d holds: %v", f.ID, err)
	}
}

// decode reads what ctl prints.
func (n *Node) decode(into any, args ...string) {
	n.t.Helper()
	out, err := n.Ctl(args...)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		n.t.Fatalf("decode what ctl %s prints: %v", strings.Join(args, " "), err)
	}
}
