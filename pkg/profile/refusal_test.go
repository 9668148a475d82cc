package profile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleave-dra/cleave/pkg/profile"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// TestRefusals: what cannot be rendered well is refused, with the field, what is in the
// way and what would do.
func TestRefusals(t *testing.T) {
	h100 := cluster(t, slices.Options{}, "dgx-h100")
	pairs := cluster(t, slices.Options{Pairs: true}, "dgx-h100")
	divided := cluster(t, slices.Options{}, "dgx-h100")
	divided.add(t, "a30x4", inMIGMode(t, "a30x4"), slices.Options{})
	sizes := cluster(t, slices.Options{}, "dgx-h100", "hgx-h200", "gb200-tray")
	fewNICs := cluster(t, slices.Options{}, "dgx-h100")
	less := server(t, "dgx-h100")
	less.NICs = less.NICs[:3]
	fewNICs.add(t, "less", less, slices.Options{})
	noNICs := world{classes: chartClasses()}
	less.NICs = nil
	noNICs.add(t, "none", less, slices.Options{})
	nothing := world{classes: chartClasses()}
	long := strings.Repeat("x", 11000)

	tests := map[string]struct {
		in     world
		spec   string
		reason string
		// says is what the error has in it, the field first.
		says []string
	}{
		"a slice's memory is its name": {h100, `{groups: [{name: s, mig: {memory: 20Gi}}]}`, profile.ReasonMarketingSize,
			[]string{"spec.groups[s].mig.memory", "20Gi is more than a 1g.20gb of NVIDIA H100 80GB HBM3 has, which is 19.6Gi"}},
		"an alternative's memory is its name": {h100, `{groups: [{name: s, firstAvailable: [{gpu: {}}, {mig: {memory: 10Gi}}]}]}`, profile.ReasonMarketingSize,
			[]string{"spec.groups[s].firstAvailable[1].mig.memory", "9.7Gi"}},
		"a GPU's memory is its name": {sizes, `{groups: [{name: g, gpu: {memory: 80Gi}}]}`, profile.ReasonMarketingSize,
			[]string{"spec.groups[g].gpu.memory", "NVIDIA H100 80GB HBM3", "79.6Gi"}},
		"a pair's memory is its GPU's name": {pairs, `{groups: [{name: g, gpuWithNIC: {memory: 80Gi}}]}`, profile.ReasonMarketingSize,
			[]string{"spec.groups[g].gpuWithNIC.memory"}},
		"a whole node's memory is its GPUs' name": {h100, `{groups: [{name: g, wholeNode: true, gpuWithNIC: {memory: 80Gi}}]}`, profile.ReasonMarketingSize,
			[]string{"spec.groups[g].gpuWithNIC.memory"}},
		"no slice has so much memory": {h100, `{groups: [{name: s, mig: {memory: 100Gi}}]}`, profile.ReasonNoSuchSlice,
			[]string{"spec.groups[s].mig.memory", "the largest is 7g.80gb of NVIDIA H100 80GB HBM3 with 79.2Gi"}},
		"no slice has so much compute": {divided, `{groups: [{name: s, mig: {model: A30, computeSlices: 7}}]}`, profile.ReasonNoSuchSlice,
			[]string{"spec.groups[s].mig.computeSlices", "7 compute slices"}},
		"nobody offers slices": {nothing, `{groups: [{name: s, mig: {memory: 5Gi}}]}`, profile.ReasonNoSuchSlice,
			[]string{"spec.groups[s].mig", "by name"}},
		"too many pairs without devices": {h100, `{groups: [{name: p, count: 5, gpuWithNIC: {}}]}`, profile.ReasonSearchTooLong,
			[]string{"spec.groups[p].count", "at most 4", "topology.pairs", "wholeNode"}},
		"too many pairs in two groups": {h100, `{groups: [{name: p, count: 3, gpuWithNIC: {}}, {name: q, count: 2, gpuWithNIC: {}}]}`, profile.ReasonSearchTooLong,
			[]string{"spec.groups[q].count"}},
		"pairs as an alternative, without devices": {h100, `{groups: [{name: p, firstAvailable: [{gpuWithNIC: {model: H100}}, {gpu: {}}]}]}`, profile.ReasonMisaligned,
			[]string{"spec.groups[p].firstAvailable[0].gpuWithNIC", "independently", "topology.pairs"}},
		"alternatives in two groups": {h100, `{groups: [{name: g, firstAvailable: [{gpu: {model: H100}}, {gpu: {model: A100}}]}, {name: node, firstAvailable: [{nic: {linkLayer: InfiniBand}}, {nic: {}}]}]}`,
			profile.ReasonMisaligned, []string{"spec.groups[node].firstAvailable", "independently of that of group g"}},
		"part of a node": {h100, `{groups: [{name: node, count: 4, wholeNode: true, gpuWithNIC: {}}]}`, profile.ReasonNotWholeNode,
			[]string{"spec.groups[node].wholeNode", "some have 8"}},
		"nodes of two sizes": {sizes, `{groups: [{name: node, wholeNode: true, gpu: {}}]}`, profile.ReasonNotWholeNode,
			[]string{"spec.groups[node].count", "between 4 and 8"}},
		"nodes with fewer NICs": {fewNICs, `{groups: [{name: node, wholeNode: true, gpuWithNIC: {}}]}`, profile.ReasonNotWholeNode,
			[]string{"spec.groups[node]", "different numbers of NICs"}},
		"a whole node without NICs": {noNICs, `{groups: [{name: node, wholeNode: true, gpuWithNIC: {}}]}`, profile.ReasonNotWholeNode,
			[]string{"spec.groups[node]", "no such NIC"}},
		"a whole node that nobody has": {nothing, `{groups: [{name: node, wholeNode: true, gpu: {}}]}`, profile.ReasonNotWholeNode,
			[]string{"spec.groups[node].count", "give a count"}},
		"GPUs of one parent": {h100, `{groups: [{name: g, gpu: {}}], constraints: [{match: ParentGPU}]}`, profile.ReasonDoesNotApply,
			[]string{"spec.constraints[0].match", "ParentGPU is about MIG slices"}},
		"a slice in a domain": {h100, `{groups: [{name: g, firstAvailable: [{gpu: {}}, {mig: {profile: 7g.80gb}}]}], constraints: [{match: NVLinkDomain, groups: [g]}]}`, profile.ReasonDoesNotApply,
			[]string{"spec.constraints[0].match", "group g is or may be something else"}},
		"configuration for what is not there": {h100, `{groups: [{name: g, gpu: {}, config: [{apiVersion: cleave.dev/v1alpha1, kind: MIGConfig}]}]}`, profile.ReasonDoesNotApply,
			[]string{"spec.groups[g].config[0]", "MIGConfig is not for"}},
		"configuration that is too long": {h100, `{groups: [{name: g, gpu: {}, config: [{apiVersion: cleave.dev/v1alpha1, kind: GPUConfig, x: ` + long + `}]}]}`, profile.ReasonTooMany,
			[]string{"bytes in a configuration, and a claim can have 10240"}},
		"too many devices": {h100, `{groups: [{name: node, count: 32, nic: {}}, {name: g, count: 1, gpu: {}}]}`, profile.ReasonTooMany,
			[]string{"spec.groups", "33 devices", "32"}},
		"too many devices in some alternative": {h100, `{groups: [{name: g, firstAvailable: [{gpu: {}}, {count: 32, nic: {}}]}, {name: node, nic: {}}]}`, profile.ReasonTooMany,
			[]string{"33 devices"}},
		"too many alternatives": {divided, `{groups: [{name: g, firstAvailable: [` + strings.Repeat(`{gpu: {}}, `, 7) + `{mig: {memory: 9Gi}}]}]}`, profile.ReasonTooMany,
			[]string{"9 alternatives", "8"}},
		"the same name twice": {h100, `{groups: [{name: node, wholeNode: true, gpuWithNIC: {}}, {name: node-nic, nic: {linkLayer: Ethernet}}]}`, profile.ReasonNameConflict,
			[]string{"spec.groups[node-nic].name", "another group's request has the name node-nic too"}},
		"too many slices": {h100, `{groups: [{name: s, count: 9, mig: {profile: 1g.10gb}}]}`, profile.ReasonSearchTooLong,
			[]string{"spec.groups", "could search for 75 ms on each node"}},
		"far too many": {h100, `{groups: [{name: n1, count: 16, nic: {}}]}`, profile.ReasonSearchTooLong,
			[]string{"could search for seconds on each node"}},
		"too many slices of one GPU": {h100, `{groups: [{name: s, count: 6, mig: {profile: 1g.10gb}}], constraints: [{match: ParentGPU}]}`, profile.ReasonSearchTooLong,
			[]string{"on each node"}},
		"too many ways before what is missing": {h100, `{groups: [{name: g, count: 4, gpu: {}}, {name: node, count: 4, nic: {}}, {name: s, count: 4, mig: {profile: 1g.10gb}}]}`, profile.ReasonSearchTooLong,
			[]string{"on each node"}},
		"too many groups": {h100, `{groups: [` + strings.TrimSuffix(strings.Repeat(`{name: NAME, nic: {linkLayer: Ethernet}}, `, 15), ", ") + `]}`, profile.ReasonSearchTooLong,
			[]string{"on each node"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := tc.spec
			for i := range 15 {
				text = strings.Replace(text, "NAME", "n"+string(rune('a'+i)), 1)
			}
			claim, err := profile.Render(spec(t, text), tc.in.inventory(), driver)
			var refusals profile.Refusals
			if !errors.As(err, &refusals) {
				t.Fatalf("rendered %+v, %v", claim, err)
			}
			if refusals[0].Reason != tc.reason {
				t.Errorf("reason %s, want %s", refusals[0].Reason, tc.reason)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error does not say %q: %v", part, err)
				}
			}
		})
	}
}

// TestRefusalsTogether: whoever mends a profile sees all that is wrong with it.
func TestRefusalsTogether(t *testing.T) {
	_, err := profile.Render(spec(t, `{groups: [{name: a, mig: {memory: 20Gi}}, {name: b, count: 9, gpuWithNIC: {}}, {name: c, gpu: {}}], constraints: [{match: ParentGPU}]}`),
		cluster(t, slices.Options{}, "dgx-h100").inventory(), driver)
	for _, part := range []string{"spec.groups[a].mig.memory", "spec.groups[b].count", "spec.constraints[0].match"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error does not name %s: %v", part, err)
		}
	}
}
