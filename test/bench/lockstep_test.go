package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

const driverName = "cleave.dev"

// TestFirstFitIsTheAllocator lets the model and the scheduler's own allocator decide
// about the same claims: they must choose the same devices, or refuse alike.
func TestFirstFitIsTheAllocator(t *testing.T) {
	const decisions = 150
	for _, m := range mixes {
		t.Run(m.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 0))
			n, state := newNode(t, false), newState(t)
			worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
			type tenant struct {
				uid types.UID
				dev device
			}
			var tenants []tenant
			refused := 0
			for i := range decisions {
				if len(tenants) > 0 && r.IntN(3) == 0 {
					k := r.IntN(len(tenants))
					state.Release(tenants[k].uid)
					n.release(tenants[k].dev)
					tenants = append(tenants[:k], tenants[k+1:]...)
				}
				kind := m.draw(r)
				results, err := state.Allocate(t.Context(), worker, claim(kind))
				if err != nil && !errors.Is(err, allocate.ErrNoFit) {
					t.Fatal(err)
				}
				d, ok := n.take(kind)
				if ok != (err == nil) {
					t.Fatalf("decision %d, %s: the model says %v, the allocator %v", i, kind, ok, err)
				}
				if !ok {
					refused++
					continue
				}
				if got := results[0].Devices.Results[0].Device; got != d.name {
					t.Fatalf("decision %d, %s: the model chooses %s, the allocator %s", i, kind, d.name, got)
				}
				uid := types.UID(fmt.Sprintf("claim-%d", i))
				state.Hold(uid, results[0])
				tenants = append(tenants, tenant{uid: uid, dev: d})
			}
			if refused == 0 {
				t.Error("nothing was refused: the node was never full")
			}
		})
	}
}

func newState(t *testing.T) *allocate.State {
	t.Helper()
	server, _, err := catalog.LoadServer("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	resources, err := publish.Build(server.Node(), publish.Options{NodeName: "node", Partitions: true})
	if err != nil {
		t.Fatal(err)
	}
	state, err := allocate.New(t.Context(), allocate.Input{
		Slices: allocate.Published(driverName, "node", resources), Features: allocate.DefaultFeatures(),
		Classes: []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "any"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func claim(kind string) *resourceapi.ResourceClaim {
	expression := fmt.Sprintf("device.attributes[%[1]q].?profile.orValue('') == %[2]q", driverName, kind)
	if kind == whole {
		expression = fmt.Sprintf("device.attributes[%q].type == 'gpu'", driverName)
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
			},
		}}}},
	}
}
