package allocate_test

import (
	"errors"
	stdslices "slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// What schedulers were once found to do wrong with devices that consume counters.

func allocators() map[string]structured.Features {
	return map[string]structured.Features{"incubating": allocate.DefaultFeatures(), "experimental": allocate.AllFeatures()}
}

// TestPublishedSCHD01: devices that consume counters never also allow several
// allocations (kubernetes/kubernetes#139034). Only shared NICs allow them at all.
func TestPublishedSCHD01(t *testing.T) {
	for _, sharing := range []slices.NICSharing{slices.NICExclusive, slices.NICByBandwidth} {
		for _, pairs := range []bool{false, true} {
			opts := slices.Options{NodeName: "worker-1", Partitions: true, NICSharing: sharing, Pairs: pairs}
			resources, err := slices.Build(twins(), opts)
			if refused := pairs && sharing == slices.NICByBandwidth; refused != (err != nil) {
				t.Errorf("sharing %s, pairs %v: %v", sharing, pairs, err)
			}
			several := 0
			for _, s := range allocate.Published(driver, "worker-1", resources) {
				for _, d := range s.Spec.Devices {
					if d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations {
						continue
					}
					several++
					if len(d.ConsumesCounters) > 0 || *d.Attributes[slices.AttributeType].StringValue != slices.TypeNIC {
						t.Errorf("sharing %s: device %s allows several allocations", sharing, d.Name)
					}
				}
			}
			if err == nil && (several > 0) != (sharing == slices.NICByBandwidth) {
				t.Errorf("sharing %s: %d devices allow several allocations", sharing, several)
			}
		}
	}
	for _, server := range catalog.Servers() {
		for _, s := range published(t, server) {
			for _, d := range s.Spec.Devices {
				if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
					t.Errorf("%s: device %s allows several allocations", server, d.Name)
				}
			}
		}
	}
}

// TestAllSCHD02: a claim for all devices of a kind that consumes counters is answered,
// whatever the answer (kubernetes/kubernetes#138989).
func TestAllSCHD02(t *testing.T) {
	for name, features := range allocators() {
		t.Run(name, func(t *testing.T) {
			s := state(t, allocate.Input{Slices: published(t, "mixed"), Features: features})
			all := func(class string) error {
				c := claim(class, 1)
				c.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
				c.Spec.Devices.Requests[0].Exactly.Count = 0
				_, err := s.Allocate(t.Context(), node, c)
				return err
			}
			// Not all MIG slices of a GPU can be had at once; all whole GPUs can.
			if err := all("mig"); !errors.Is(err, allocate.ErrNoFit) {
				t.Errorf("all MIG slices: %v, want %v", err, allocate.ErrNoFit)
			}
			if err := all("gpu"); err != nil {
				t.Errorf("all GPUs: %v", err)
			}
		})
	}
}

// TestTaintedSCHD03: a candidate that is refused for its taint gives its counters back,
// so that the next one is found (kubernetes/kubernetes#140431).
func TestTaintedSCHD03(t *testing.T) {
	for name, features := range allocators() {
		t.Run(name, func(t *testing.T) {
			all := published(t, "dgx-h100")
			tainted := 0
			for _, s := range all {
				for i, d := range s.Spec.Devices {
					// The first in order of all 1g slices, and the first whole GPU.
					if d.Name == "gpu-0000-1b-00-0-mig-1g-10gb-6" || d.Name == "gpu-0000-df-00-0" {
						s.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
						tainted++
					}
				}
			}
			if tainted != 2 {
				t.Fatalf("%d devices tainted, want 2: has the order changed?", tainted)
			}
			s := state(t, allocate.Input{Slices: all, Features: features})
			if got := take(t, s, "a", claim("gpu", 7)); len(got) != 7 {
				t.Errorf("whole GPUs: %v, want the seven others", got)
			}
			s.Release("a")
			// 55 of 56 slices are without a taint; a claim has at most 32 devices.
			got := take(t, s, "b", claim("1g", 32))
			got = append(got, take(t, s, "c", claim("1g", 23))...)
			if stdslices.Contains(got, "gpu-0000-1b-00-0-mig-1g-10gb-6") {
				t.Error("the tainted slice was given out")
			}
		})
	}
}
