package capability

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissing(t *testing.T) {
	tests := map[string]struct {
		status string
		last   int
		want   []string
	}{
		"nothing withheld": {
			status: "Name:\tx\nCapBnd:\t000001ffffffffff\n", last: 40,
		},
		"CAP_SYS_RESOURCE withheld": {
			status: "CapBnd:\t000001fffeffffff\n", last: 40, want: []string{"CAP_SYS_RESOURCE"},
		},
		"two withheld, in order": {
			status: "CapBnd:\t000001fffefffffe\n", last: 40, want: []string{"CAP_CHOWN", "CAP_SYS_RESOURCE"},
		},
		"an older kernel lacks nothing by not knowing it": {
			status: "CapBnd:\t0000003fffffffff\n", last: 37,
		},
		"a newer kernel's capability has no name here": {
			status: "CapBnd:\t000001ffffffffff\n", last: 41, want: []string{"CAP_41"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bounding, err := ParseBounding(strings.NewReader(tc.status))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, bounding.Missing(Full(tc.last))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseBoundingRefuses(t *testing.T) {
	for name, status := range map[string]string{
		"no line": "Name:\tx\n",
		"not hex": "CapBnd:\tzz\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseBounding(strings.NewReader(status)); err == nil {
				t.Error("want an error")
			}
		})
	}
}

func TestBoundSpec(t *testing.T) {
	all := Full(40)
	tests := map[string]struct {
		mask     Mask
		in, want string
	}{
		"withheld ones go, other fields stay": {
			mask: all &^ (1 << 24),
			in:   `{"ociVersion":"1.0.2","process":{"args":["a"],"capabilities":{"bounding":["CAP_SYS_RESOURCE","CAP_CHOWN"],"ambient":["CAP_SYS_RESOURCE"]}},"x":12345678901234567890}`,
			want: `{"ociVersion":"1.0.2","process":{"args":["a"],"capabilities":{"ambient":[],"bounding":["CAP_CHOWN"]}},"x":12345678901234567890}`,
		},
		"unknown names stay": {
			mask: all,
			in:   `{"process":{"capabilities":{"bounding":["CAP_NEW"]}}}`,
			want: `{"process":{"capabilities":{"bounding":["CAP_NEW"]}}}`,
		},
		"no process":      {mask: all, in: `{"root":{}}`, want: `{"root":{}}`},
		"no capabilities": {mask: all, in: `{"process":{"cwd":"/"}}`, want: `{"process":{"cwd":"/"}}`},
		"null":            {mask: all, in: `{"process":{"capabilities":null}}`, want: `{"process":{"capabilities":null}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.mask.BoundSpec([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTargetOf(t *testing.T) {
	tests := map[string]struct {
		args string
		want Target
		ok   bool
	}{
		"create": {
			args: "--root /r --log /l --log-format json create --bundle /b --pid-file /p id",
			want: Target{Path: "/b/config.json"}, ok: true,
		},
		"create with inline values": {
			args: "--root=/r --systemd-cgroup create --bundle=/b id",
			want: Target{Path: "/b/config.json"}, ok: true,
		},
		"run in the current directory": {args: "run id", want: Target{Path: "./config.json"}, ok: true},
		"exec": {
			args: "--root /r exec --process /tmp/p --detach id",
			want: Target{Path: "/tmp/p", Process: true}, ok: true,
		},
		"exec of a plain command": {args: "exec id sh", want: Target{Process: true}},
		"state":                   {args: "--root /r state id"},
		"nothing":                 {args: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := TargetOf(strings.Fields(tc.args))
			if ok != tc.ok {
				t.Errorf("ok = %v, want %v", ok, tc.ok)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
