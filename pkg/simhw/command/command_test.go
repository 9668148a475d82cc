package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":            {nil, exitUsage, "Usage:"},
		"unknown":            {[]string{"dance"}, exitUsage, "Usage:"},
		"help":               {[]string{"-h"}, exitOK, "Usage:"},
		"serve's help":       {[]string{"serve", "-h"}, exitOK, "-latency-scale"},
		"unknown flag":       {[]string{"serve", "--frobnicate"}, exitUsage, "flag provided but not defined"},
		"no root":            {[]string{"serve", "--server=mixed", "--state=/nowhere"}, exitRefused, "flag --root is required"},
		"unknown server":     {[]string{"serve", "--root=/nowhere", "--server=cray-1", "--state=/nowhere"}, exitFailed, `server "cray-1" is not in the catalog: known are 16-gpu, a30x4, dgx-a100, dgx-h100, `},
		"negative latency":   {[]string{"serve", "--root=/nowhere", "--server=mixed", "--state=/nowhere", "--latency-scale=-1"}, exitRefused, "must not be negative"},
		"an argument":        {[]string{"serve", "--root=/nowhere", "mixed"}, exitRefused, `unexpected argument "mixed"`},
		"ctl nothing":        {[]string{"ctl"}, exitUsage, "create-instance"},
		"ctl unknown":        {[]string{"ctl", "dance", "--root=/nowhere"}, exitUsage, "create-instance"},
		"ctl half a command": {[]string{"ctl", "fault", "--root=/nowhere"}, exitUsage, "fault add"},
		"ctl help":           {[]string{"ctl", "fault", "add", "-h"}, exitOK, "that the call returns"},
		"ctl an argument":    {[]string{"ctl", "list", "all", "--root=/nowhere"}, exitFailed, `unexpected argument "all": cleave-simhw ctl list -h`},
		"ctl no profile":     {[]string{"ctl", "create-instance", "--root=/nowhere"}, exitFailed, "flag --profile is required"},
		"ctl no call":        {[]string{"ctl", "fault", "add", "--root=/nowhere"}, exitFailed, "flag --call is required"},
		"ctl no path":        {[]string{"ctl", "files", "spoil", "--root=/nowhere"}, exitFailed, "flag --path is required"},
		"ctl unknown code":   {[]string{"ctl", "fault", "add", "--return=OOPS", "--root=/nowhere"}, exitUsage, "is not one of nvml.h's"},
		"bad minors":         {[]string{"serve", "--minors=1,x"}, exitUsage, "invalid value"},
		"ctl without root":   {[]string{"ctl", "list"}, exitFailed, "flag --root is required"},
		"ctl without daemon": {[]string{"ctl", "list", "--root=/nowhere"}, exitFailed, "reach the simulator of /nowhere"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := Run(append([]string{"cleave-simhw"}, tc.args...), &out, &out)
			if code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d, want %d; output without %q:\n%s", code, tc.code, tc.want, out.String())
			}
		})
	}
}

func TestKeptSeed(t *testing.T) {
	o := options{state: t.TempDir()}
	first, err := o.keptSeed()
	if err != nil || first == "" {
		t.Fatalf("seed %q, %v", first, err)
	}
	again, err := o.keptSeed()
	if err != nil || again != first {
		t.Errorf("then %q, %v; want %q again", again, err, first)
	}
	other, err := options{state: t.TempDir()}.keptSeed()
	if err != nil || other == first {
		t.Errorf("another node has the same seed %q, %v", other, err)
	}
}
