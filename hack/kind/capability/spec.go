package capability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// BoundSpec removes the capabilities that m lacks from an OCI runtime
// configuration (config.json). All other fields are kept as they are.
func (m Mask) BoundSpec(config []byte) ([]byte, error) {
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(config, &spec); err != nil {
		return nil, fmt.Errorf("parse OCI config: %w", err)
	}
	process, ok := spec["process"]
	if !ok {
		return config, nil
	}
	bounded, err := m.BoundProcess(process)
	if err != nil {
		return nil, err
	}
	spec["process"] = bounded
	return json.Marshal(spec)
}

// BoundProcess does the same for the process object alone, which is what
// `runc exec --process` gets.
func (m Mask) BoundProcess(config []byte) ([]byte, error) {
	var process map[string]json.RawMessage
	if err := json.Unmarshal(config, &process); err != nil {
		return nil, fmt.Errorf("parse OCI process: %w", err)
	}
	raw, ok := process["capabilities"]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return config, nil
	}
	var sets map[string][]string
	if err := json.Unmarshal(raw, &sets); err != nil {
		return nil, fmt.Errorf("parse OCI capabilities: %w", err)
	}
	for name, set := range sets {
		kept := []string{}
		for _, capability := range set {
			if m.allows(capability) {
				kept = append(kept, capability)
			}
		}
		sets[name] = kept
	}
	bounded, err := json.Marshal(sets)
	if err != nil {
		return nil, fmt.Errorf("encode OCI capabilities: %w", err)
	}
	process["capabilities"] = bounded
	return json.Marshal(process)
}

// Target is the file that a runc command line is about to read.
type Target struct {
	Path    string
	Process bool // the file holds only the process object
}

// TargetOf finds the file in the arguments of runc (without the program name).
// It returns false for commands that start nothing.
func TargetOf(args []string) (Target, bool) {
	verb, rest := splitVerb(args)
	switch verb {
	case "create", "run", "restore":
		bundle, ok := option(rest, "bundle", "b")
		if !ok {
			bundle = "."
		}
		return Target{Path: bundle + "/config.json"}, true
	case "exec":
		path, ok := option(rest, "process", "p")
		return Target{Path: path, Process: true}, ok
	}
	return Target{}, false
}

// splitVerb skips runc's global options. Those with a value of their own are
// the ones that Docker and containerd pass.
func splitVerb(args []string) (verb string, rest []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i], args[i+1:]
		}
		switch strings.TrimLeft(args[i], "-") {
		case "root", "log", "log-format", "criu", "rootless":
			i++
		}
	}
	return "", nil
}

func option(args []string, long, short string) (string, bool) {
	for i, arg := range args {
		name, value, inline := strings.Cut(arg, "=")
		if name != "--"+long && name != "-"+long && name != "-"+short {
			continue
		}
		if inline {
			return value, true
		}
		if i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}
