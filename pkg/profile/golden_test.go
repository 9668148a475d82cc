package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/profile"
	"github.com/cleave-dra/cleave/pkg/slices"
)

const examples = "../../api/v1alpha1/examples"

// rendered is what a golden file has.
type rendered struct {
	Spec  resourceapi.ResourceClaimSpec `json:"spec"`
	Notes []string                      `json:"notes,omitempty"`
}

// TestExamplesGolden: what the documentation's examples become on a cluster of DGX with
// A100 and H100, with pairs.
func TestExamplesGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	inventory := cluster(t, slices.Options{Pairs: true}, "dgx-h100", "dgx-a100").inventory()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var object v1alpha1.ClusterClaimProfile // the other kind lacks only the selector
			if err := yaml.UnmarshalStrict(raw, &object); err != nil {
				t.Fatal(err)
			}
			claim, err := profile.Render(object.Spec.ClaimProfileSpec, inventory, driver)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "example-"+filepath.Base(file), rendered(claim))
		})
	}
}

// TestRenderGolden has every form that is not among the examples.
func TestRenderGolden(t *testing.T) {
	h100 := cluster(t, slices.Options{}, "dgx-h100")
	pairs := cluster(t, slices.Options{Pairs: true}, "dgx-h100")
	shared := cluster(t, slices.Options{NICSharing: slices.NICByBandwidth}, "dgx-h100")
	noClasses := cluster(t, slices.Options{}, "dgx-h100")
	noClasses.classes = noClasses.classes[:1]
	noClasses.classes[0].Name = "other"
	fewNICs := world{classes: chartClasses()}
	few := server(t, "dgx-h100")
	few.NICs = few.NICs[:3]
	fewNICs.add(t, "dgx-h100", few, slices.Options{})
	noDomain := world{classes: chartClasses()}
	apart := server(t, "dgx-h100")
	for i := range apart.GPUs {
		apart.GPUs[i].NVLink = nil
	}
	noDomain.add(t, "dgx-h100", apart, slices.Options{})
	mixed := cluster(t, slices.Options{}, "dgx-h100")
	for _, name := range []string{"dgx-a100", "a30x4"} {
		mixed.add(t, name, inMIGMode(t, name), slices.Options{})
	}
	tests := map[string]struct {
		in world
		// spec is as a user writes it.
		spec string
	}{
		"matched pairs": {h100, `{groups: [{name: trainers, count: 2, gpuWithNIC: {model: H100, bandwidth: 400G}, config: [
			{apiVersion: cleave.dev/v1alpha1, kind: RDMAConfig, nccl: true}, {apiVersion: cleave.dev/v1alpha1, kind: GPUConfig, computeMode: ExclusiveProcess}]}],
			constraints: [{match: NVLinkDomain}]}`},
		"pairs and slices":        {pairs, `{groups: [{name: small, count: 3, mig: {profile: 1g.10gb}}, {name: pair, gpuWithNIC: {linkLayer: InfiniBand}}]}`},
		"whole node without NICs": {h100, `{groups: [{name: node, wholeNode: true, gpu: {}}]}`},
		"whole node without pairs": {h100, `{groups: [{name: node, wholeNode: true, gpuWithNIC: {}, config: [{apiVersion: cleave.dev/v1alpha1, kind: RDMAConfig, nccl: true}]}],
			constraints: [{match: NVLinkDomain}]}`},
		"shared NIC":                 {shared, `{groups: [{name: nic, nic: {bandwidth: 100G}}]}`},
		"matched shared NIC":         {shared, `{groups: [{name: pair, gpuWithNIC: {bandwidth: 100G}}]}`},
		"memory on many models":      {mixed, `{groups: [{name: slice, count: 2, mig: {memory: 9.6Gi}}]}`},
		"memory on one model":        {mixed, `{groups: [{name: slice, mig: {model: A30, memory: 10Gi}}]}`},
		"compute and memory":         {h100, `{groups: [{name: slice, mig: {computeSlices: 2, memory: 5Gi}}]}`},
		"profile without class":      {mixed, `{groups: [{name: slice, mig: {profile: 2g.12gb, architecture: Ampere}}]}`},
		"profile with media":         {h100, `{groups: [{name: slice, mig: {profile: 1g.10gb+me}}]}`},
		"largest first":              {h100, `{groups: [{name: a, count: 2, mig: {profile: 1g.10gb}}, {name: b, mig: {profile: 3g.40gb}}, {name: c, gpu: {}}, {name: d, nic: {linkLayer: Ethernet}}]}`},
		"alternatives of pairs":      {pairs, `{groups: [{name: pair, firstAvailable: [{gpuWithNIC: {model: H200}}, {gpuWithNIC: {model: H100}}, {count: 2, mig: {memory: 30Gi}}]}]}`},
		"no classes":                 {noClasses, `{groups: [{name: pair, count: 2, gpuWithNIC: {}}]}`},
		"no domain":                  {noDomain, `{groups: [{name: gpu, count: 2, gpu: {}}], constraints: [{match: NVLinkDomain}]}`},
		"matched pairs but few NICs": {fewNICs, `{groups: [{name: pair, count: 4, gpuWithNIC: {bandwidth: 400G}}]}`},
		"nothing like it":            {h100, `{groups: [{name: gpu, gpu: {model: B200, memory: 150Gi}}, {name: slice, mig: {profile: 2g.45gb}}]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			golden(t, strings.ReplaceAll(name, " ", "-")+".yaml", rendered(render(t, tc.spec, tc.in)))
		})
	}
}
