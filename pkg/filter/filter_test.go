package filter_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/filter"
)

// program is a shell script in the place of cleave-filter.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cleave-filter")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAsk(t *testing.T) {
	devices := []resourceapi.Device{{Name: "nic-a"}, {Name: "nic-b"}}
	tests := map[string]struct {
		script  string
		want    []filter.Verdict
		wantErr string
	}{
		"it answers":                {script: `grep -q '"expression":"e","driver":"d"' && echo '{"verdicts":[{"matches":true},{"matches":false,"failure":"odd"}]}'`, want: []filter.Verdict{{Matches: true}, {Failure: "odd"}}},
		"it refuses the expression": {script: `echo '{"refused":"compile expression: odd"}'`, wantErr: "compile expression: odd"},
		"it fails":                  {script: `echo broken >&2; exit 3`, wantErr: "exit status 3: broken"},
		"it says something else":    {script: `echo hello`, wantErr: "read the answer of"},
		"it leaves one out":         {script: `echo '{"verdicts":[{"matches":true}]}'`, wantErr: "1 verdicts on 2 devices"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := filter.Ask(t.Context(), program(t, tc.script), filter.Question{Expression: "e", Driver: "d", Devices: devices})
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskWithoutProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cleave-filter")
	if _, err := filter.Ask(t.Context(), path, filter.Question{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}

func TestAskEndsTheProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := filter.Ask(ctx, program(t, "exec sleep 60"), filter.Question{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
