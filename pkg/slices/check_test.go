package slices_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/mig"
	"github.com/cleave-dra/cleave/pkg/slices"
)

func TestBuildRefuses(t *testing.T) {
	taint := resourceapi.DeviceTaint{Key: "cleave.dev/unhealthy", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	many := make([]resourceapi.DeviceTaint, 17)
	for i := range many {
		many[i] = taint
	}
	tests := map[string]struct {
		change func(*hardware.Node, *slices.Options)
		want   []string // parts of the error, all of them
	}{
		"everything at once": {
			change: func(n *hardware.Node, o *slices.Options) {
				o.NodeName = "Worker 1"
				n.GPUs[0].PCI = n.GPUs[1].PCI
				o.DeviceTaints = map[string][]resourceapi.DeviceTaint{"gpu-0000-86-00-0": {{Key: "bad key", Value: "bad value", Effect: "Sometimes"}}}
			},
			want: []string{
				`part "Worker 1"`, "device gpu-0000-86-00-0: name is not unique",
				`taint key "bad key"`, `value "bad value"`, `unknown effect "Sometimes"`,
			},
		},
		"no node name":  {change: func(_ *hardware.Node, o *slices.Options) { o.NodeName = "" }, want: []string{`pool name: part ""`}},
		"long name":     {change: func(_ *hardware.Node, o *slices.Options) { o.NodeName = strings.Repeat("a.", 125) + "b" }, want: []string{"255 characters"}},
		"no address":    {change: func(n *hardware.Node, _ *slices.Options) { n.GPUs[1].PCI = "" }, want: []string{`name "gpu-"`}},
		"profile twice": {change: func(n *hardware.Node, _ *slices.Options) { twice(n.GPUs[0].MIG) }, want: []string{"device gpu-0000-3b-00-0-mig-1g-10gb-6: name is not unique"}},
		"odd profile name": {
			change: func(n *hardware.Node, _ *slices.Options) {
				m := *n.GPUs[0].MIG
				m.Profiles = []mig.Profile{{Name: "1g_10GB", Slices: 1, MaxInstances: 1, Placements: []mig.Placement{{Start: 0, Size: 1}}}}
				n.GPUs[0].MIG = &m
			},
			want: []string{`device gpu-0000-3b-00-0-mig-1g_10GB-0: name "gpu-0000-3b-00-0-mig-1g_10GB-0"`},
		},
		"too many memory slices to count": {
			change: func(n *hardware.Node, _ *slices.Options) {
				m := *n.GPUs[0].MIG
				m.Profiles = []mig.Profile{{Name: "1g.10gb", Slices: 1, MaxInstances: 1, Placements: []mig.Placement{{Start: 40, Size: 1}}}}
				n.GPUs[0].MIG = &m
			},
			want: []string{"counter set gpu-0000-3b-00-0: 41 counters, 1 to 32 are allowed"},
		},
		"too many taints": {
			change: func(n *hardware.Node, o *slices.Options) {
				o.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{n.GPUs[1].PCI: many}
			},
			want: []string{"device gpu-0000-86-00-0: 17 taints, at most 16 are allowed"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node, opts := server(t, "mixed"), partitions
			tc.change(&node, &opts)
			got, err := slices.Build(node, opts)
			if err == nil {
				t.Fatal("built")
			}
			if len(got.Pools) != 0 {
				t.Errorf("an error and %d pools", len(got.Pools))
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func twice(m *hardware.MIG) { m.Profiles = append(m.Profiles[:1:1], m.Profiles...) }

// TestBuildHeld: what a claim holds is never withdrawn while its GPU is there.
func TestBuildHeld(t *testing.T) {
	held := []string{"gpu-0000-3b-00-0-mig-1g-10gb-6", "gpu-0000-86-00-0"}
	tests := map[string]struct {
		change func(*hardware.Node, *slices.Options)
		want   string // part of the error
	}{
		"all there":              {change: func(*hardware.Node, *slices.Options) {}},
		"the GPU is gone":        {change: func(n *hardware.Node, _ *slices.Options) { n.GPUs = n.GPUs[1:] }},
		"counters are dropped":   {change: func(_ *hardware.Node, o *slices.Options) { o.Partitions = false }, want: held[0]},
		"the GPU lost its MIG":   {change: func(n *hardware.Node, _ *slices.Options) { n.GPUs[0].MIG = nil }, want: held[0]},
		"the profile is renamed": {change: func(n *hardware.Node, _ *slices.Options) { rename(n.GPUs[0].MIG) }, want: held[0]},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node, opts := server(t, "mixed"), partitions
			opts.Held = held
			tc.change(&node, &opts)
			_, err := slices.Build(node, opts)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want+": a claim holds it")):
				t.Errorf("got %v, want it to name %s", err, tc.want)
			}
		})
	}
}

func rename(m *hardware.MIG) {
	for i := range m.Profiles {
		m.Profiles[i].Name += "+new"
	}
}

// TestBuildTaints: a GPU's taint is on all that it offers, a device's on itself.
func TestBuildTaints(t *testing.T) {
	opts := partitions
	gpu := resourceapi.DeviceTaint{Key: "cleave.dev/unhealthy", Value: "xid-79", Effect: resourceapi.DeviceTaintEffectNoExecute}
	slot := resourceapi.DeviceTaint{Key: "cleave.dev/foreign", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	opts.GPUTaints = map[hardware.PCIAddress][]resourceapi.DeviceTaint{"0000:3b:00.0": {gpu}, "0000:99:00.0": {gpu}}
	opts.DeviceTaints = map[string][]resourceapi.DeviceTaint{"gpu-0000-3b-00-0-mig-1g-10gb-6": {slot}, "gpu-0000-99-00-0": {slot}}
	got := map[string][]resourceapi.DeviceTaint{}
	byName := devices(pool(t, build(t, server(t, "mixed"), opts)))
	for _, name := range []string{"gpu-0000-3b-00-0", "gpu-0000-3b-00-0-mig-1g-10gb-6", "gpu-0000-3b-00-0-mig-1g-10gb-5", "gpu-0000-86-00-0"} {
		got[name] = byName[name].Taints
	}
	want := map[string][]resourceapi.DeviceTaint{
		"gpu-0000-3b-00-0":               {gpu},
		"gpu-0000-3b-00-0-mig-1g-10gb-6": {gpu, slot},
		"gpu-0000-3b-00-0-mig-1g-10gb-5": {gpu},
		"gpu-0000-86-00-0":               nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}
