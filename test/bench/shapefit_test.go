package bench

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/hardware"
)

// TestShapes lets the scheduler's allocator decide about every form of claim: where it
// just fits it is given the right devices, and where one device is missing it is refused.
func TestShapes(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			hw := s.node(t)
			claim := s.claim(t, hw)
			worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(0)}}
			results, err := s.cluster(t, hw, 1, s.fits).Allocate(t.Context(), worker, claim)
			if err != nil {
				t.Fatalf("it fits: %v", err)
			}
			if s.check != nil {
				if err := s.check(read(t, hw, results[0])); err != nil {
					t.Errorf("given: %v", err)
				}
			}
			if _, err := s.cluster(t, hw, 1, s.short).Allocate(t.Context(), worker, claim); !errors.Is(err, allocate.ErrNoFit) {
				t.Errorf("one device is missing: %v, want %v", err, allocate.ErrNoFit)
			}
		})
	}
}

// given is what a claim got, in the order of its requests.
type given struct {
	gpus []hardware.GPU
	nics []hardware.NIC
	// requests has one for each device.
	requests []string
}

func read(t testing.TB, hw hardware.Node, result resourceapi.AllocationResult) given {
	t.Helper()
	var g given
	for _, r := range result.Devices.Results {
		d, err := hw.Device(r.Device)
		if err != nil {
			t.Fatal(err)
		}
		g.requests = append(g.requests, r.Request)
		if d.GPU.PCI != "" {
			g.gpus = append(g.gpus, d.GPU)
		}
		if d.NIC != nil {
			g.nics = append(g.nics, *d.NIC)
		}
	}
	return g
}

// oneGPU wants slices of one and the same GPU.
func (g given) oneGPU() error {
	for _, gpu := range g.gpus {
		if gpu.PCI != g.gpus[0].PCI {
			return fmt.Errorf("slices of %s and %s", gpu.PCI, g.gpus[0].PCI)
		}
	}
	return nil
}

// twoHalves wants two slices, the second of the alternatives.
func (g given) twoHalves() error {
	if len(g.requests) != 2 || g.requests[0] != "g/1-mig-3g-40gb" {
		return fmt.Errorf("devices for %v", g.requests)
	}
	return nil
}

// near wants each GPU to have a NIC as near as can be.
func (g given) near() error {
	if len(g.gpus) != len(g.nics) {
		return fmt.Errorf("%d GPUs and %d NICs", len(g.gpus), len(g.nics))
	}
	for i := range g.gpus {
		if d := hardware.DistanceBetween(g.gpus[i].Place(), g.nics[i].Place()); d != hardware.DistancePIX {
			return fmt.Errorf("GPU %s and NIC %s: %s", g.gpus[i].PCI, g.nics[i].PCI, d)
		}
	}
	return nil
}

// wholeNode wants every GPU to have a NIC of its own among all that were given.
func (g given) wholeNode() error {
	seen := map[hardware.PCIAddress]bool{}
	for _, gpu := range g.gpus {
		for _, nic := range g.nics {
			if !seen[nic.PCI] && hardware.DistanceBetween(gpu.Place(), nic.Place()) == hardware.DistancePIX {
				seen[nic.PCI] = true
				break
			}
		}
	}
	if len(g.gpus) != 8 || len(seen) != 8 || len(g.nics) != 8 {
		return fmt.Errorf("%d GPUs and %d NICs, %d of them near a GPU", len(g.gpus), len(g.nics), len(seen))
	}
	return nil
}
