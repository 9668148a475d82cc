package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// before is what Docker changes on this host and leaves changed when it stops.
type before struct {
	Modules       bool   // /lib/modules, which kind mounts, was there
	IPForward     string // /proc/sys/net/ipv4/ip_forward
	ForwardPolicy string // of the filter table's FORWARD chain
}

const (
	ipForward = "/proc/sys/net/ipv4/ip_forward"
	modules   = "/lib/modules"
)

func (e *Engine) beforeFile() string { return e.Store.Path("docker", "before.json") }

// remember notes the state before Docker starts for the first time. A later
// start after a crash would note Docker's own changes.
func (e *Engine) remember(ctx context.Context) error {
	if _, err := os.Stat(e.beforeFile()); err == nil {
		return nil
	}
	forward, err := os.ReadFile(ipForward)
	if err != nil {
		return fmt.Errorf("read whether this host forwards: %w", err)
	}
	rules, err := command.Output(ctx, "iptables-save")
	if err != nil {
		return fmt.Errorf("read the firewall: %w", err)
	}
	_, missing := os.Stat(modules)
	text, err := json.Marshal(before{
		Modules: missing == nil, IPForward: strings.TrimSpace(string(forward)), ForwardPolicy: forwardPolicy(rules),
	})
	if err != nil {
		return fmt.Errorf("note the state before Docker: %w", err)
	}
	return os.WriteFile(e.beforeFile(), text, 0o644)
}

// restore takes back what the stopped daemon has left in the kernel. It is best
// effort: leftovers harm nobody, and the daemon itself is gone.
func (e *Engine) restore(ctx context.Context) error {
	text, err := os.ReadFile(e.beforeFile())
	if err != nil {
		return nil // this daemon was started before there was such a file
	}
	var state before
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("parse the state before Docker: %w", err)
	}
	rules, err := command.Output(ctx, "iptables-save")
	if err != nil {
		return fmt.Errorf("read the firewall: %w", err)
	}
	cmd := command.Prepare(ctx, "iptables-restore")
	cmd.Stdin = strings.NewReader(withoutDocker(rules, state.ForwardPolicy))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove Docker's firewall rules: %w: %s", err, output)
	}
	if err := os.WriteFile(ipForward, []byte(state.IPForward), 0o644); err != nil {
		return fmt.Errorf("restore whether this host forwards: %w", err)
	}
	if _, err := os.Stat("/sys/class/net/docker0"); err == nil {
		if _, err := command.Output(ctx, "ip", "link", "delete", "docker0"); err != nil {
			return fmt.Errorf("remove Docker's bridge: %w", err)
		}
	}
	if !state.Modules {
		_ = os.Remove(modules) // refused if somebody put modules there meanwhile
	}
	return os.Remove(e.beforeFile())
}

const forwardChain = ":FORWARD "

// forwardPolicy reads the policy of the filter table's FORWARD chain from the
// text of iptables-save.
func forwardPolicy(rules string) string {
	table := ""
	for line := range strings.Lines(rules) {
		if strings.HasPrefix(line, "*") {
			table = strings.TrimSpace(line)
		}
		if policy, ok := strings.CutPrefix(line, forwardChain); ok && table == "*filter" {
			return strings.Fields(policy)[0]
		}
	}
	return "ACCEPT" // the kernel's default, where no table was made yet
}

var dockers = regexp.MustCompile(`\bDOCKER(-[A-Z0-9-]+)?\b|\bdocker0\b|\bbr-[0-9a-f]{12}\b`)

// withoutDocker drops Docker's chains and rules from the text of iptables-save
// and puts the policy of the filter table's FORWARD chain back.
func withoutDocker(rules, forward string) string {
	var kept strings.Builder
	table := ""
	for line := range strings.Lines(rules + "\n") {
		if strings.HasPrefix(line, "*") {
			table = strings.TrimSpace(line)
		}
		switch {
		case dockers.MatchString(line):
		case table == "*filter" && strings.HasPrefix(line, forwardChain):
			kept.WriteString(forwardChain + forward + " [0:0]\n")
		default:
			kept.WriteString(line)
		}
	}
	return kept.String()
}
