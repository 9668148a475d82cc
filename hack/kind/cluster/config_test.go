package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func TestKindConfig(t *testing.T) {
	controlPlane := v1alpha4.Node{Role: v1alpha4.ControlPlaneRole, Image: "img"}
	worker := func(server string) v1alpha4.Node {
		return v1alpha4.Node{
			Role: v1alpha4.WorkerRole, Image: "img", Labels: map[string]string{"cleave.dev/simulated": server},
		}
	}
	tests := map[string]struct {
		options  Options
		image    Image
		nodes    []v1alpha4.Node
		network  v1alpha4.Networking
		gates    map[string]bool
		patchHas []string
	}{
		"our image brings no network plugin and no CoreDNS": {
			options: Options{Name: "cleave", Workers: 2, Simulated: []string{"dgx-h100", "mixed"}},
			image:   Image{Ref: "img", Own: true},
			nodes:   []v1alpha4.Node{controlPlane, worker("dgx-h100"), worker("mixed")},
			network: v1alpha4.Networking{
				IPFamily: v1alpha4.IPv4Family, PodSubnet: podSubnet,
				DisableDefaultCNI: true, KubeProxyMode: v1alpha4.NFTablesProxyMode,
			},
			patchHas: []string{"failCgroupV1: false", "addon/coredns"},
		},
		"kind's image keeps kind's defaults": {
			options:  Options{Name: "cleave", Workers: 2, Simulated: []string{"dgx-h100"}},
			image:    Image{Ref: "img"},
			nodes:    []v1alpha4.Node{controlPlane, worker("dgx-h100"), {Role: v1alpha4.WorkerRole, Image: "img"}},
			network:  v1alpha4.Networking{IPFamily: v1alpha4.IPv4Family, PodSubnet: podSubnet},
			patchHas: []string{"failCgroupV1: false"},
		},
		"a worker without a server has no label": {
			options: Options{Name: "cleave", Workers: 2, Simulated: []string{"", "mixed"}},
			image:   Image{Ref: "img"},
			nodes:   []v1alpha4.Node{controlPlane, {Role: v1alpha4.WorkerRole, Image: "img"}, worker("mixed")},
			network: v1alpha4.Networking{IPFamily: v1alpha4.IPv4Family, PodSubnet: podSubnet},
		},
		"feature gates": {
			options: Options{Name: "cleave", Workers: 1, FeatureGates: map[string]bool{"DRADeviceTaints": false}},
			image:   Image{Ref: "img"},
			nodes:   []v1alpha4.Node{controlPlane, {Role: v1alpha4.WorkerRole, Image: "img"}},
			network: v1alpha4.Networking{IPFamily: v1alpha4.IPv4Family, PodSubnet: podSubnet},
			gates:   map[string]bool{"DRADeviceTaints": false},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := kindConfig(tc.options, tc.image)
			if diff := cmp.Diff(tc.nodes, got.Nodes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.network, got.Networking); diff != "" {
				t.Error(diff)
			}
			patches := strings.Join(got.KubeadmConfigPatches, "---\n")
			for _, want := range tc.patchHas {
				if !strings.Contains(patches, want) {
					t.Errorf("patches lack %q:\n%s", want, patches)
				}
			}
			if diff := cmp.Diff(tc.gates, got.FeatureGates); diff != "" || got.RuntimeConfig != nil {
				t.Errorf("the cluster must run with Kubernetes' defaults, unless told otherwise: %s", diff)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	base := Options{Name: "cleave", Workers: 2, Simulated: []string{"a", "b"}}
	image := Image{Ref: "img", Own: true}
	same, err := settings(base, image)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := base
	elsewhere.Kubeconfig = "/other"
	gated := base
	gated.FeatureGates = map[string]bool{"DRADeviceTaints": false}
	tests := map[string]struct {
		options Options
		image   Image
		equal   bool
	}{
		"the kubeconfig's place does not matter": {options: elsewhere, image: image, equal: true},
		"feature gates matter":                   {options: gated, image: image},
		"labels matter":                          {options: Options{Name: "cleave", Workers: 2}, image: image},
		"the image matters":                      {options: base, image: Image{Ref: "other", Own: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := settings(tc.options, tc.image)
			if err != nil {
				t.Fatal(err)
			}
			if (got == same) != tc.equal {
				t.Errorf("equal = %v, want %v", got == same, tc.equal)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		options Options
		ok      bool
	}{
		"good":             {options: Options{Name: "a-1", Workers: 2, Simulated: []string{"x", "y"}}, ok: true},
		"fewer servers":    {options: Options{Name: "a", Workers: 2, Simulated: []string{"x"}}, ok: true},
		"no name":          {options: Options{Workers: 1}},
		"bad name":         {options: Options{Name: "A/b", Workers: 1}},
		"no workers":       {options: Options{Name: "a"}},
		"too many servers": {options: Options{Name: "a", Workers: 1, Simulated: []string{"x", "y"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tc.options.Validate(); (err == nil) != tc.ok {
				t.Errorf("Validate() = %v, want ok = %v", err, tc.ok)
			}
		})
	}
}

func TestParseFeatureGates(t *testing.T) {
	got, err := ParseFeatureGates(map[string]string{"A": "false", "B": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"A": false, "B": true}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseFeatureGates(map[string]string{"A": "off"}); err == nil || !strings.Contains(err.Error(), "A=off") {
		t.Errorf("error = %v, want one that names A=off", err)
	}
}
