package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDaemonArgs(t *testing.T) {
	tests := map[string]struct {
		wrapper string
		want    []string
	}{
		"all capabilities": {want: []string{"dockerd", "--pidfile", "/c/pid"}},
		"withheld capabilities": {
			wrapper: "/c/bounded",
			want: []string{"dockerd", "--pidfile", "/c/pid",
				"--add-runtime", "bounded=/c/bounded", "--default-runtime", "bounded"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, daemonArgs("/c/pid", tc.wrapper)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIsOurs(t *testing.T) {
	tests := map[string]struct {
		args []string
		want bool
	}{
		"what we start":           {args: daemonArgs("/c/pid", "/c/bounded"), want: true},
		"with a path":             {args: []string{"/usr/sbin/dockerd", "--pidfile", "/c/pid"}, want: true},
		"somebody else's daemon":  {args: []string{"dockerd", "-H", "fd://"}},
		"another file":            {args: []string{"dockerd", "--pidfile", "/d/pid"}},
		"another program":         {args: []string{"tail", "--pidfile", "/c/pid"}},
		"a file name cut short":   {args: []string{"dockerd", "x", "--pidfile"}},
		"a zombie has no command": {args: nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmdline := []byte(strings.Join(tc.args, "\x00") + "\x00")
			if got := isOurs(cmdline, "/c/pid"); got != tc.want {
				t.Errorf("isOurs(%q) = %v, want %v", tc.args, got, tc.want)
			}
		})
	}
}
