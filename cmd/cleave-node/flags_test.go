package main

import (
	"bytes"
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"--node-name=n", "--driver-name=gpu.example.com", "--driver-root=/run/nvidia/driver"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ got, want string }{
		"plugin directory":    {o.pluginDir, "/var/lib/kubelet/plugins/gpu.example.com"},
		"hook":                {o.hookPath, "/var/lib/kubelet/plugins/gpu.example.com/nvidia-cdi-hook"},
		"root on the host":    {o.hostDriverRoot, "/run/nvidia/driver"},
		"root of the devices": {o.devRoot, "/run/nvidia/driver"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string
	}{
		"no node":             {args: nil, want: []string{"--node-name"}},
		"all at once":         {args: []string{"--driver-name=Not_DNS", "--cdi-dir=cdi"}, want: []string{"--node-name", "--driver-name", "--cdi-dir"}},
		"a filter of nothing": {args: []string{"--node-name=n", "--nic-filter=true"}, want: []string{"--nic-filter", "--nics"}},
		"an argument":         {args: []string{"--node-name=n", "extra"}, want: []string{`"extra"`}},
		"an unknown flag":     {args: []string{"--nodename=n"}, want: []string{"--nodename"}},
		"outside a pod":       {args: []string{"--node-name=n", "--plugin-dir=" + t.TempDir(), "--http-address=127.0.0.1:0"}, want: []string{"--kubeconfig"}},
		"a bad kubeconfig":    {args: []string{"--node-name=n", "--kubeconfig=/nonexistent"}, want: []string{"--kubeconfig", "/nonexistent"}},
		"a bad log verbosity": {args: []string{"--node-name=n", "-v=much"}, want: []string{"much"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := logsapi.ResetForTest(nil); err != nil { // a process sets its logging up once
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := run(tc.args, &stdout, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, part := range tc.want {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("message %q does not mention %q", stderr.String(), part)
				}
			}
		})
	}
}

func TestRunPrints(t *testing.T) {
	tests := map[string]struct{ arg, want string }{
		"version": {arg: "--version", want: "cleave-node " + version},
		"help":    {arg: "--help", want: "--nvidia-cdi-hook-path"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run([]string{tc.arg}, &stdout, &stderr); code != 0 {
				t.Errorf("exit code %d, want 0: %s", code, stderr.String())
			}
			if !strings.Contains(stdout.String(), tc.want) {
				t.Errorf("output %q does not mention %q", stdout.String(), tc.want)
			}
		})
	}
}
