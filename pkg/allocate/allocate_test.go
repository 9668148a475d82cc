package allocate_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/cleave-dra/cleave/pkg/allocate"
)

// take allocates and holds; it returns the names of the devices.
func take(t *testing.T, s *allocate.State, uid types.UID, c *resourceapi.ResourceClaim) []string {
	t.Helper()
	results, err := s.Allocate(t.Context(), node, c)
	if err != nil {
		t.Fatal(err)
	}
	s.Hold(uid, results[0])
	return names(results[0])
}

func names(result resourceapi.AllocationResult) []string {
	var out []string
	for _, device := range result.Devices.Results {
		out = append(out, device.Device)
	}
	return out
}

func refused(t *testing.T, s *allocate.State, c *resourceapi.ResourceClaim) {
	t.Helper()
	if _, err := s.Allocate(t.Context(), node, c); !errors.Is(err, allocate.ErrNoFit) {
		t.Errorf("%s: got %v, want %v", c.Name, err, allocate.ErrNoFit)
	}
}

// TestOrder walks through what users get on an 8-GPU server: MIG slices from the
// front, where they spoil the fewest others, whole GPUs from the back.
func TestOrder(t *testing.T) {
	for name, features := range map[string]structured.Features{"default": allocate.DefaultFeatures(), "all": allocate.AllFeatures()} {
		t.Run(name, func(t *testing.T) {
			s := state(t, allocate.Input{Slices: published(t, "dgx-h100"), Features: features})
			var got []string
			for i, class := range []string{"1g", "1g", "gpu", "3g", "7g", "1g"} {
				got = append(got, take(t, s, types.UID(fmt.Sprint(i)), claim(class, 1))...)
			}
			want := []string{
				"gpu-0000-1b-00-0-mig-1g-10gb-6",
				"gpu-0000-1b-00-0-mig-1g-10gb-5",
				"gpu-0000-df-00-0",
				"gpu-0000-1b-00-0-mig-3g-40gb-0", // slices 4 to 7 are broken into
				"gpu-0000-43-00-0-mig-7g-80gb-0",
				"gpu-0000-1b-00-0-mig-1g-10gb-4",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHoldAndRelease(t *testing.T) {
	s := state(t, allocate.Input{Slices: published(t, "mixed")})
	take(t, s, "seven", claim("1g", 7))
	refused(t, s, claim("1g", 1))
	refused(t, s, claim("7g", 1))
	take(t, s, "plain", claim("gpu", 1))
	refused(t, s, claim("gpu", 1)) // the other one is in slices
	s.Release("seven")
	take(t, s, "seven", claim("7g", 1))
	s.Release("seven")
	s.Release("plain")
	s.Release("nobody")
	take(t, s, "both", claim("gpu", 2))
	refused(t, s, claim("mig", 1))
}

// TestClaimsOfThePresent: what existing claims hold is taken from them.
func TestClaimsOfThePresent(t *testing.T) {
	slices := published(t, "mixed")
	first := state(t, allocate.Input{Slices: slices})
	holder := claim("gpu", 2)
	results, err := first.Allocate(t.Context(), node, holder)
	if err != nil {
		t.Fatal(err)
	}
	holder.Status.Allocation = &results[0]
	refused(t, state(t, allocate.Input{Slices: slices, Claims: []*resourceapi.ResourceClaim{holder, claim("gpu", 1)}}), claim("mig", 1))

	admin := holder.DeepCopy()
	for i := range admin.Status.Allocation.Devices.Results {
		yes := true
		admin.Status.Allocation.Devices.Results[i].AdminAccess = &yes
	}
	take(t, state(t, allocate.Input{Slices: slices, Claims: []*resourceapi.ResourceClaim{admin}}), "c", claim("gpu", 2))
}

// TestSeveralClaims: the claims of one pod are allocated together or not at all.
func TestSeveralClaims(t *testing.T) {
	s := state(t, allocate.Input{Slices: published(t, "mixed")})
	results, err := s.Allocate(t.Context(), node, claim("gpu", 1), claim("1g", 7))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(results[0]); !cmp.Equal(got, []string{"gpu-0000-86-00-0"}) {
		t.Errorf("the whole GPU is %v, want the one without MIG", got)
	}
	if got := names(results[1]); len(got) != 7 {
		t.Errorf("got %d MIG slices, want 7", len(got))
	}
	if _, err := s.Allocate(t.Context(), node, claim("gpu", 2), claim("1g", 1)); !errors.Is(err, allocate.ErrNoFit) {
		t.Errorf("more than there is: got %v, want %v", err, allocate.ErrNoFit)
	}
}

func TestTaintRules(t *testing.T) {
	pool, device, other := "worker-1/gpu", "gpu-0000-86-00-0", "nvidia.example"
	whole := driver
	rule := func(s *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: s,
			Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
	}
	tests := map[string]struct {
		selector *resourceapi.DeviceTaintSelector
		want     int64 // whole GPUs left, of two
	}{
		"one device":     {selector: &resourceapi.DeviceTaintSelector{Driver: &whole, Pool: &pool, Device: &device}, want: 1},
		"the driver":     {selector: &resourceapi.DeviceTaintSelector{Driver: &whole}, want: 0},
		"everything":     {selector: &resourceapi.DeviceTaintSelector{}, want: 0},
		"another driver": {selector: &resourceapi.DeviceTaintSelector{Driver: &other}, want: 2},
		"another pool":   {selector: &resourceapi.DeviceTaintSelector{Pool: &other}, want: 2},
		"no selector":    {selector: nil, want: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			slices := published(t, "mixed")
			s := state(t, allocate.Input{Slices: slices, TaintRules: []*resourceapi.DeviceTaintRule{rule(tc.selector)}})
			if tc.want > 0 {
				take(t, s, "c", claim("gpu", tc.want))
			}
			refused(t, s, claim("gpu", 1))
			if diff := cmp.Diff(published(t, "mixed"), slices); diff != "" {
				t.Errorf("the caller's slices changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotAllocatable(t *testing.T) {
	all := published(t, "mixed")
	t.Run("incomplete pool", func(t *testing.T) {
		refused(t, state(t, allocate.Input{Slices: all[1:]}), claim("gpu", 1))
	})
	t.Run("published at last", func(t *testing.T) {
		s := state(t, allocate.Input{})
		refused(t, s, claim("gpu", 1))
		s.Publish(all)
		take(t, s, "c", claim("gpu", 1))
	})
	t.Run("invalid pool", func(t *testing.T) {
		broken := published(t, "mixed")
		broken[0].Spec.SharedCounters[0].Name = "other"
		_, err := state(t, allocate.Input{Slices: broken}).Allocate(t.Context(), node, claim("gpu", 1))
		if err == nil || errors.Is(err, allocate.ErrNoFit) {
			t.Errorf("got %v, want an error of its own", err)
		}
	})
	t.Run("unknown class", func(t *testing.T) {
		_, err := state(t, allocate.Input{Slices: all}).Allocate(t.Context(), node, claim("no-such-class", 1))
		if err == nil || errors.Is(err, allocate.ErrNoFit) {
			t.Errorf("got %v, want an error of its own", err)
		}
	})
}
