package host_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleave-dra/cleave/pkg/host"
)

// TestMemlock sets this process's limit, as a container runtime sets its containers'.
func TestMemlock(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
			t.Error(err)
		}
	})
	tests := map[string]struct {
		limit uint64
		want  []string
	}{
		"finite":   {limit: 64 << 10, want: []string{" 65536 bytes", "ibv_reg_mr", "LimitMEMLOCK=infinity"}},
		"infinite": {limit: unix.RLIM_INFINITY},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			limit := unix.Rlimit{Cur: tc.limit, Max: max(before.Max, tc.limit)}
			if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
				t.Skipf("only root can raise the limit: %v", err)
			}
			err := host.New(nil, nil, "").Memlock()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}
