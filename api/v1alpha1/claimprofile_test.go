package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/cleave-dra/cleave/test/testkit/crd"
)

// definitions are those that the chart installs, by kind.
func definitions(t *testing.T) map[string]*crd.Definition {
	t.Helper()
	out := map[string]*crd.Definition{}
	for kind, file := range map[string]string{"ClaimProfile": "claimprofiles", "ClusterClaimProfile": "clusterclaimprofiles"} {
		d, err := crd.Load(filepath.Join("..", "..", "deployments", "helm", "cleave", "files", "crds", "cleave.dev_"+file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = d
	}
	return out
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	var out map[string]any
	// Not encoding/json, for which all numbers are fractions.
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExamplesAreValid: the API server takes every example.
func TestExamplesAreValid(t *testing.T) {
	kinds := definitions(t)
	files, err := filepath.Glob(filepath.Join("examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := object(t, string(raw))
		if err := kinds[o["kind"].(string)].Validate(t.Context(), o); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestClaimProfileValidation: what the API server refuses, and what it says.
func TestClaimProfileValidation(t *testing.T) {
	many := func(n int, format string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return strings.Join(out, ", ")
	}
	config := func(kind, version string) string {
		return fmt.Sprintf(`{groups: [{name: g, gpu: {}, config: [{apiVersion: %s, kind: %s, computeMode: Default, more: {things: [1]}}]}]}`, version, kind)
	}
	tests := map[string]struct {
		spec string
		// want is in the error; empty if there is none.
		want string
	}{
		"any GPU":                       {`{groups: [{name: g, gpu: {}}]}`, ""},
		"any NIC":                       {`{groups: [{name: g, nic: {}}]}`, ""},
		"a number as memory":            {`{groups: [{name: g, gpu: {memory: 1000}}]}`, ""},
		"configuration":                 {config("GPUConfig", "cleave.dev/v1alpha1"), ""},
		"sixteen groups":                {`{groups: [` + many(16, "{name: g%d, gpu: {}}") + `]}`, ""},
		"eight alternatives":            {`{groups: [{name: g, firstAvailable: [` + many(8, "{count: 1, gpu: {model: A%d}}") + `]}]}`, ""},
		"no groups":                     {`{groups: []}`, "spec.groups"},
		"nothing":                       {`{}`, "spec.groups"},
		"too many groups":               {`{groups: [` + many(17, "{name: g%d, gpu: {}}") + `]}`, "at most 16"},
		"two groups of a name":          {`{groups: [{name: g, gpu: {}}, {name: g, gpu: {}}]}`, "Duplicate value"},
		"no name":                       {`{groups: [{gpu: {}}]}`, "spec.groups[0].name"},
		"a name in capitals":            {`{groups: [{name: GPU, gpu: {}}]}`, "spec.groups[0].name"},
		"a long name":                   {`{groups: [{name: ` + strings.Repeat("g", 49) + `, gpu: {}}]}`, "may not be more than 48"},
		"no kind of device":             {`{groups: [{name: g, count: 2}]}`, "exactly one of gpu, mig, nic, gpuWithNIC and firstAvailable"},
		"two kinds of devices":          {`{groups: [{name: g, gpu: {}, nic: {}}]}`, "exactly one of gpu, mig, nic, gpuWithNIC and firstAvailable"},
		"a kind and alternatives":       {`{groups: [{name: g, gpu: {}, firstAvailable: [{gpu: {}}, {gpu: {}}]}]}`, "exactly one of"},
		"a count beside alternatives":   {`{groups: [{name: g, count: 2, firstAvailable: [{gpu: {}}, {gpu: {}}]}]}`, "each alternative has a count of its own"},
		"one alternative":               {`{groups: [{name: g, firstAvailable: [{gpu: {}}]}]}`, "at least 2"},
		"nine alternatives":             {`{groups: [{name: g, firstAvailable: [` + many(9, "{count: 1, gpu: {model: A%d}}") + `]}]}`, "at most 8"},
		"an alternative of two kinds":   {`{groups: [{name: g, firstAvailable: [{gpu: {}, mig: {profile: 1g.10gb}}, {gpu: {}}]}]}`, "an alternative is exactly one of"},
		"a GPU or a NIC":                {`{groups: [{name: g, firstAvailable: [{gpu: {}}, {nic: {}}]}]}`, "all of nic, or none"},
		"alternatives in alternatives":  {`{groups: [{name: g, firstAvailable: [{gpu: {}}, {firstAvailable: []}]}]}`, "unknown field spec.groups[0].firstAvailable[1].firstAvailable"},
		"count zero":                    {`{groups: [{name: g, count: 0, gpu: {}}]}`, "spec.groups[0].count"},
		"count 33":                      {`{groups: [{name: g, count: 33, gpu: {}}]}`, "spec.groups[0].count"},
		"a whole node of slices":        {`{groups: [{name: g, wholeNode: true, mig: {profile: 1g.10gb}}]}`, "a whole node is a group of gpu or gpuWithNIC"},
		"two whole nodes":               {`{groups: [{name: g, wholeNode: true, gpu: {}}, {name: h, wholeNode: true, gpu: {}}]}`, "only one group can be a whole node"},
		"not whole nodes":               {`{groups: [{name: g, wholeNode: false, gpu: {}}, {name: h, wholeNode: true, gpu: {}}]}`, ""},
		"a slice of any kind":           {`{groups: [{name: g, mig: {}}]}`, "either a profile, or memory or computeSlices or both"},
		"a slice by profile and memory": {`{groups: [{name: g, mig: {profile: 1g.10gb, memory: 5Gi}}]}`, "either a profile, or memory or computeSlices or both"},
		"not a profile":                 {`{groups: [{name: g, mig: {profile: 1g10gb}}]}`, "spec.groups[0].mig.profile"},
		"nine compute slices":           {`{groups: [{name: g, mig: {computeSlices: 9}}]}`, "spec.groups[0].mig.computeSlices"},
		"no memory":                     {`{groups: [{name: g, gpu: {memory: 0}}]}`, "memory is more than 0"},
		"less than no memory":           {`{groups: [{name: g, gpu: {memory: -5Gi}}]}`, "spec.groups[0].gpu.memory"},
		"half a byte":                   {`{groups: [{name: g, gpu: {memory: "0.5"}}]}`, ""},
		"memory of many digits":         {`{groups: [{name: g, gpu: {memory: "` + strings.Repeat("1", 33) + `"}}]}`, "spec.groups[0].gpu.memory"},
		"memory in words":               {`{groups: [{name: g, gpu: {memory: much}}]}`, "spec.groups[0].gpu.memory"},
		"no bandwidth":                  {`{groups: [{name: g, nic: {bandwidth: "0.0G"}}]}`, "spec.groups[0].nic.bandwidth"},
		"an expression as a model":      {`{groups: [{name: g, gpu: {model: "A|B"}}]}`, "spec.groups[0].gpu.model"},
		"another link layer":            {`{groups: [{name: g, nic: {linkLayer: RoCE}}]}`, "spec.groups[0].nic.linkLayer"},
		"an unknown field":              {`{groups: [{name: g, gpu: {kind: H100}}]}`, "unknown field spec.groups[0].gpu.kind"},
		"a constraint":                  {`{groups: [{name: g, gpu: {}}], constraints: [{match: NVLinkDomain, groups: [g]}]}`, ""},
		"another constraint":            {`{groups: [{name: g, gpu: {}}], constraints: [{match: Rack}]}`, "spec.constraints[0].match"},
		"a constraint of nothing":       {`{groups: [{name: g, gpu: {}}], constraints: [{match: ParentGPU, groups: []}]}`, "spec.constraints[0].groups"},
		"a constraint of no such group": {`{groups: [{name: g, gpu: {}}], constraints: [{match: NVLinkDomain, groups: [h]}]}`, "constraints name groups of this profile only"},
		"an unknown configuration":      {config("MPSConfig", "cleave.dev/v1alpha1"), "each is a GPUConfig, MIGConfig or RDMAConfig of cleave.dev/v1alpha1"},
		"another group's configuration": {config("GPUConfig", "example.com/v1"), "each is a GPUConfig, MIGConfig or RDMAConfig of cleave.dev/v1alpha1"},
		"configuration without a kind":  {`{groups: [{name: g, gpu: {}, config: [{apiVersion: cleave.dev/v1alpha1}]}]}`, "spec.groups[0].config[0].kind"},
	}
	kinds := definitions(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for kind, more := range map[string]string{"ClaimProfile": "", "ClusterClaimProfile": "namespaceSelector: {}, "} {
				o := object(t, fmt.Sprintf("{apiVersion: cleave.dev/v1alpha1, kind: %s, metadata: {name: p}, spec: {%s%s}", kind, more, strings.TrimPrefix(tc.spec, "{")))
				err := kinds[kind].Validate(t.Context(), o)
				if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("%s: %v, want %q", kind, err, tc.want)
				}
			}
		})
	}
}

// A cluster-wide profile says for which namespaces it is, so that nobody gets it by
// oversight.
func TestClusterClaimProfileNeedsSelector(t *testing.T) {
	o := object(t, `{apiVersion: cleave.dev/v1alpha1, kind: ClusterClaimProfile, metadata: {name: p}, spec: {groups: [{name: g, gpu: {}}]}}`)
	if err := definitions(t)["ClusterClaimProfile"].Validate(t.Context(), o); err == nil || !strings.Contains(err.Error(), "spec.namespaceSelector") {
		t.Errorf("%v, want spec.namespaceSelector", err)
	}
}
