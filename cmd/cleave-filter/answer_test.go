package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/filter"
)

func nic(name string, rail *int64) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	if rail != nil {
		d.Attributes["rail"] = resourceapi.DeviceAttribute{IntValue: rail}
	}
	return d
}

func TestRun(t *testing.T) {
	zero, one := int64(0), int64(1)
	devices := []resourceapi.Device{nic("nic-a", &zero), nic("nic-b", &one), nic("nic-c", nil)}
	tests := map[string]struct {
		question filter.Question
		want     []bool   // of the devices
		failures []string // of the devices
		refused  string
	}{
		"it includes, excludes and fails": {
			question: filter.Question{Expression: `device.attributes["cleave.dev"].rail == 0`, Driver: "cleave.dev", Devices: devices},
			want:     []bool{true, false, false}, failures: []string{"", "", "on nic-c: no such key: rail"}},
		"another driver's name": {
			question: filter.Question{Expression: `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].rail == 1`, Driver: "gpu.example.com", Devices: devices[:2]},
			want:     []bool{false, true}, failures: []string{"", ""}},
		"only checked":     {question: filter.Question{Expression: `true`, Driver: "cleave.dev"}},
		"no CEL":           {question: filter.Question{Expression: `device.`, Driver: "cleave.dev", Devices: devices}, refused: `compile expression "device."`},
		"no question of a": {question: filter.Question{Expression: `1 + 1`, Driver: "cleave.dev"}, refused: "bool"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			input, err := json.Marshal(tc.question)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := run(bytes.NewReader(input), &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			var got filter.Answer
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if (got.Refused != "") != (tc.refused != "") || !strings.Contains(got.Refused, tc.refused) {
				t.Errorf("refused: %q, want %q", got.Refused, tc.refused)
			}
			var matches []bool
			for i, v := range got.Verdicts {
				matches = append(matches, v.Matches)
				if (v.Failure != "") != (tc.failures[i] != "") || !strings.Contains(v.Failure, tc.failures[i]) {
					t.Errorf("device %d fails with %q, want %q", i, v.Failure, tc.failures[i])
				}
			}
			if diff := cmp.Diff(tc.want, matches); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for name, input := range map[string]string{"nothing": "", "no JSON": "device", "an unknown field": `{"expresion": "true"}`} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(strings.NewReader(input), &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "read the question") {
				t.Errorf("exit code %d, %s", code, stderr.String())
			}
		})
	}
}
