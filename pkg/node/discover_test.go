package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/simhw"
)

// kernel is a topology in which nothing is known, but for the NICs.
type kernel struct {
	host.Topology
	nics  []hardware.NIC
	err   error
	reads int
}

func (k *kernel) PCIeRoot(hardware.PCIAddress) (string, error)               { return "", nil }
func (k *kernel) NUMANode(hardware.PCIAddress) (*int, error)                 { return nil, nil }
func (k *kernel) Bridges(hardware.PCIAddress) ([]hardware.PCIAddress, error) { return nil, nil }
func (k *kernel) ExclusiveRDMA() (bool, error)                               { return false, nil }

func (k *kernel) NICs(ctx context.Context) ([]hardware.NIC, []error, error) {
	k.reads++
	return k.nics, nil, errors.Join(k.err, ctx.Err())
}

// discovering is a plugin that discovers simulated GPUs and the kernel's NICs.
func discovering(t *testing.T, cfg Config, k *kernel) *Plugin {
	t.Helper()
	server, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := simhw.NewEngine(server, simhw.Options{Seed: "mixed"})
	if err != nil {
		t.Fatal(err)
	}
	return New(cfg, Deps{Kube: fake.NewClientset(), Host: host.New(simhw.NewDriver(engine), k, t.TempDir())})
}

func nobody(hardware.PCIAddress) bool { return false }

func addresses(nics []hardware.NIC) []hardware.PCIAddress {
	var out []hardware.PCIAddress
	for _, n := range nics {
		out = append(out, n.PCI)
	}
	return out
}

func TestDiscoverNICs(t *testing.T) {
	nics := []hardware.NIC{{PCI: "0000:0a:00.0"}, {PCI: "0000:18:00.0", Interface: "eth0", Uplink: true}, {PCI: "0000:5e:00.0"}}
	tests := map[string]struct {
		cfg   Config
		err   error
		held  hardware.PCIAddress
		want  []hardware.PCIAddress
		reads int
	}{
		"all but the uplink (RDMA-06)": {cfg: Config{NICs: true}, want: []hardware.PCIAddress{"0000:0a:00.0", "0000:5e:00.0"}, reads: 1},
		"a claim holds the uplink":     {cfg: Config{NICs: true}, held: "0000:18:00.0", want: addresses(nics), reads: 1},
		"NICs are switched off":        {},
		"unreadable as a whole":        {cfg: Config{NICs: true}, err: errors.New("no sysfs"), reads: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := &kernel{nics: nics, err: tc.err}
			found, err := discovering(t, tc.cfg, k).discover(t.Context(), func(a hardware.PCIAddress) bool { return a == tc.held })
			if err != nil || len(found.GPUs) != 2 {
				t.Fatalf("GPUs: got %+v, %v", found.GPUs, err)
			}
			if diff := cmp.Diff(tc.want, addresses(found.NICs)); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			if k.reads != tc.reads {
				t.Errorf("NICs were read %d times, want %d", k.reads, tc.reads)
			}
		})
	}
}

// A discovery that is broken off must not pass for a node that has lost its NICs.
func TestDiscoverCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := discovering(t, Config{NICs: true}, &kernel{nics: []hardware.NIC{{PCI: "0000:5e:00.0"}}})
	cancel()
	if found, err := p.discover(ctx, nobody); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestMemlockIsSaidOnce sets this process's limit, as a container runtime sets that of
// the plugin's container.
func TestMemlockIsSaidOnce(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
			t.Error(err)
		}
	})
	nics := []hardware.NIC{{PCI: "0000:0a:00.0"}}
	tests := map[string]struct {
		limit uint64
		nics  []hardware.NIC
		want  int
	}{
		"a finite limit":              {limit: 64 << 10, nics: nics, want: 1},
		"a finite limit, but no NICs": {limit: 64 << 10},
		"no limit":                    {limit: unix.RLIM_INFINITY, nics: nics},
		"the one NIC carries a route": {limit: 64 << 10, nics: []hardware.NIC{{PCI: "0000:0a:00.0", Uplink: true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			limit := unix.Rlimit{Cur: tc.limit, Max: max(before.Max, tc.limit)}
			if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
				t.Skipf("only root can raise the limit: %v", err)
			}
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			p := discovering(t, Config{NICs: true}, &kernel{nics: tc.nics})
			for range 2 {
				if _, err := p.discover(klog.NewContext(t.Context(), logger), nobody); err != nil {
					t.Fatal(err)
				}
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Count(log, "65536 bytes"); got != tc.want {
				t.Errorf("the limit is said %d times, want %d:\n%s", got, tc.want, log)
			}
		})
	}
}
