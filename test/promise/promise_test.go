// Package promise tests what Cleave promises about the whole: what the scheduler
// believes is what the hardware accepts.
package promise

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"pgregory.net/rapid"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	cleaveslices "github.com/cleave-dra/cleave/pkg/slices"
)

// TestMain draws fewer sequences than rapid would, since each asks the allocator
// thousands of times; -rapid.checks=N draws more, as `make soak` does. All models start
// from one seed, which is printed; -rapid.seed repeats it.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { chosen[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "8", "rapid.seed": fmt.Sprint(rand.Uint64())} {
		if chosen[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	fmt.Printf("-rapid.checks=%s -rapid.seed=%s\n", flag.Lookup("rapid.checks").Value, flag.Lookup("rapid.seed").Value)
	os.Exit(m.Run())
}

// TestSchedulerAndHardwareAgree lets claims come and go at random on every model of
// the catalogue, with both of Kubernetes' allocators (MIGC-07). The scheduler's allocator decides; the simulated hardware has
// to follow, and after every step the two have to agree, for every device that
// there could be, on whether it could be had next.
//
// A failure is shrunk to the shortest sequence; rapid prints how to run it again.
func TestSchedulerAndHardwareAgree(t *testing.T) {
	allocators := map[string]structured.Features{"incubating": allocate.DefaultFeatures(), "experimental": allocate.AllFeatures()}
	tested := 0
	for _, name := range catalog.Models() {
		model, _, err := catalog.LoadModel(name)
		if errors.Is(err, catalog.ErrNotKnown) {
			continue // it is never simulated; pkg/catalog tests which and why
		}
		if err != nil {
			t.Fatal(err)
		}
		tested++
		for allocator, features := range allocators {
			t.Run(name+"/"+allocator, func(t *testing.T) { check(t, pair(model), nil, features) })
		}
	}
	if tested < 10 {
		t.Errorf("only %d models can be simulated", tested)
	}
}

// pair is a server with two GPUs of a model: the counters of one GPU know nothing of
// another, so two are as good as eight.
func pair(model catalog.Model) catalog.Server {
	s := catalog.Server{Name: "two-" + model.Name, DriverVersion: "580.95.05", CUDADriverVersion: 13000}
	for i := range 2 {
		s.GPUs = append(s.GPUs, catalog.ServerGPU{
			Model: model, Minor: i, NUMANode: -1,
			PCI: hardware.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 0x3b+i)), RootComplex: "pci0000:3a",
		})
	}
	return s
}

func check(t *testing.T, server catalog.Server, nics []hardware.NIC, features structured.Features) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, server, nics, features)
		rt.Repeat(map[string]func(*rapid.T){"claim": w.claim, "free": w.free})
	})
}

// world is both sides: what is promised and what can be kept.
type world struct {
	machine *machine
	state   *allocate.State
	kinds   []kind
	devices []string
	claims  map[types.UID][]made
	next    int
}

func newWorld(t *rapid.T, server catalog.Server, nics []hardware.NIC, features structured.Features) *world {
	m, err := newMachine(t.Context(), server, nics)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{machine: m, kinds: kinds(m.node), devices: m.devices(), claims: map[types.UID][]made{}}
	opts := cleaveslices.Options{NodeName: nodeName, Partitions: true, DeviceTaints: pins(w.devices)}
	if len(nics) > 0 {
		w.kinds, opts.Pairs = append(w.kinds, nicKinds()...), true
	}
	resources, err := cleaveslices.Build(m.node, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.state, err = allocate.New(t.Context(), allocate.Input{
		Slices:   allocate.Published(driverName, nodeName, resources),
		Classes:  classes,
		Features: features,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// claim allocates something at random; all that was allocated must be makeable.
// If nothing is, the hardware must have no room either, as far as that can be
// said of one device; for several, the search for room is the allocator's own.
func (w *world) claim(t *rapid.T) {
	k := rapid.SampledFrom(w.kinds).Draw(t, "kind")
	count := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "count")
	results, err := w.state.Allocate(t.Context(), node, claimKind(k.expression, count))
	if errors.Is(err, allocate.ErrNoFit) {
		if count == 1 {
			w.expectNone(t, k)
		}
		t.Skip("nothing fits")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid := types.UID(fmt.Sprintf("claim-%03d", w.next))
	w.next++
	w.state.Hold(uid, results[0])
	var names []string
	for _, device := range results[0].Devices.Results {
		d, err := w.machine.create(t.Context(), device.Device)
		if err != nil {
			t.Fatalf("%s was allocated, but cannot be made: %v", device.Device, err)
		}
		w.claims[uid] = append(w.claims[uid], d)
		names = append(names, device.Device)
	}
	t.Logf("%s got %s", uid, strings.Join(names, ", "))
	w.agree(t, w.claims[uid])
}

func (w *world) expectNone(t *rapid.T, k kind) {
	names, err := k.of(w.machine.node, w.devices)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if w.takes(t, name) {
			t.Fatalf("nothing was allocated for %s, but %s can be made", k, name)
		}
	}
}

// free ends a claim at random.
func (w *world) free(t *rapid.T) {
	if len(w.claims) == 0 {
		t.Skip("nothing to free")
	}
	var uids []types.UID
	for uid := range w.claims {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	uid := rapid.SampledFrom(uids).Draw(t, "claim")
	devices := w.claims[uid]
	delete(w.claims, uid)
	w.state.Release(uid)
	for _, d := range devices {
		if err := w.machine.destroy(t.Context(), d); err != nil {
			t.Fatalf("free %s: %v", uid, err)
		}
	}
	t.Logf("%s is gone", uid)
	w.agree(t, devices)
}

// agree compares both sides on every device of the GPUs and NICs that were touched.
func (w *world) agree(t *rapid.T, touched []made) {
	for _, name := range w.devices {
		addresses, err := hardware.AddressesOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(touched, func(d made) bool {
			return slices.Contains(addresses, d.gpu.PCI) || d.nic != nil && slices.Contains(addresses, d.nic.PCI)
		}) {
			continue
		}
		_, err = w.state.Allocate(t.Context(), node, claimDevice(name))
		if err != nil && !errors.Is(err, allocate.ErrNoFit) {
			t.Fatal(err)
		}
		if allocated, makeable := err == nil, w.takes(t, name); allocated != makeable {
			t.Fatalf("%s: the scheduler would allocate it: %v; the hardware would make it: %v", name, allocated, makeable)
		}
	}
}

func (w *world) takes(t *rapid.T, name string) bool {
	ok, err := w.machine.takes(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
