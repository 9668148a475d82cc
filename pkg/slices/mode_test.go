package slices_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// TestBuildMIGC03: where the mode cannot be changed without a reset, a GPU offers
// what its present mode allows.
func TestBuildMIGC03(t *testing.T) {
	tests := map[string]struct {
		enabled, switchable, partitions bool
		whole, slices                   bool
	}{
		"switchable, off":                          {switchable: true, partitions: true, whole: true, slices: true},
		"switchable, on":                           {switchable: true, enabled: true, partitions: true, whole: true, slices: true},
		"fixed, off":                               {partitions: true, whole: true},
		"fixed, on":                                {enabled: true, partitions: true, slices: true},
		"SLICE-05 switchable, counters dropped":    {switchable: true, enabled: true, whole: true},
		"SLICE-05 fixed and off, counters dropped": {whole: true},
		"SLICE-05 fixed and on, counters dropped":  {enabled: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := server(t, "mixed")
			node.GPUs = node.GPUs[:1]
			m := *node.GPUs[0].MIG
			m.Enabled, m.Switchable = tc.enabled, tc.switchable
			node.GPUs[0].MIG = &m
			p := pool(t, build(t, node, publish.Options{NodeName: "worker-1", Partitions: tc.partitions}))
			whole, parts := 0, 0
			for name := range devices(p) {
				if strings.Contains(name, "-mig-") {
					parts++
				} else {
					whole++
				}
			}
			if (whole > 0) != tc.whole || (parts > 0) != tc.slices {
				t.Errorf("%d whole GPUs and %d slices, want some: %v and %v", whole, parts, tc.whole, tc.slices)
			}
		})
	}
}

// TestBuildDISC09: what a MIG instance that no claim made stands in the way of is
// not handed out; the instance itself only where that is wanted.
func TestBuildDISC09(t *testing.T) {
	node := server(t, "mixed")
	g := node.GPUs[0]
	oneG, ok := g.MIG.Profile(mig.Profile1Slice)
	if !ok {
		t.Fatal("no 1g")
	}
	instance := hardware.Instance{ID: 13, ProfileID: oneG.ID, Placement: mig.Placement{Start: 6, Size: 1}}
	whole := hardware.Instance{ID: 13, ProfileID: oneG.ID, Placement: instance.Placement, Compute: []hardware.ComputeInstance{{ID: 0, UUID: "MIG-a"}}}
	self := g.PartitionName(oneG, instance.Placement)
	// What overlaps slot 6: whole GPU, 1g, 1g+me, 1g.20gb, 3g and 7g.
	overlapping := []string{
		g.DeviceName(), g.DeviceName() + "-mig-1g-10gb-6", g.DeviceName() + "-mig-1g-10gb-plus-me-6", g.DeviceName() + "-mig-1g-20gb-6",
		g.DeviceName() + "-mig-3g-40gb-4", g.DeviceName() + "-mig-7g-80gb-0",
	}
	tests := map[string]struct {
		instance hardware.Instance
		serve    bool
		want     []string
	}{
		"tainted":                               {instance: whole, want: overlapping},
		"served":                                {instance: whole, serve: true, want: slices.DeleteFunc(slices.Clone(overlapping), func(n string) bool { return n == self })},
		"not served without a compute instance": {instance: instance, serve: true, want: overlapping},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			opts := partitions
			opts.Existing = map[hardware.PCIAddress][]hardware.Instance{g.PCI: {tc.instance}}
			opts.ServeExisting = tc.serve
			var got []string
			for name, d := range devices(pool(t, build(t, node, opts))) {
				if len(d.Taints) > 0 {
					got = append(got, name)
					want := []resourceapi.DeviceTaint{{Key: publish.TaintForeignInstance, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
					if diff := cmp.Diff(want, d.Taints); diff != "" {
						t.Errorf("taints of %s (-want +got):\n%s", name, diff)
					}
				}
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.want))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tainted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuildSLICE05: where the API server drops taints, what would be tainted is not
// published at all, unless a claim holds it.
func TestBuildSLICE05(t *testing.T) {
	node := server(t, "mixed")
	g := node.GPUs[1]
	opts := partitions
	opts.Taintless = true
	opts.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{g.PCI: {{Key: "cleave.dev/unhealthy", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	if _, ok := devices(pool(t, build(t, node, opts)))[g.DeviceName()]; ok {
		t.Error("published without its taint")
	}
	opts.Held = []string{g.DeviceName()}
	d, ok := devices(pool(t, build(t, node, opts)))[g.DeviceName()]
	if !ok || len(d.Taints) > 0 {
		t.Errorf("held by a claim: published %v with taints %v, want published without", ok, d.Taints)
	}
}
