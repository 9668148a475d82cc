package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// one is a claim for one request, with the rest of its exactly, and the rest of devices.
func one(class, more, devices string) string {
	return fmt.Sprintf("devices: {requests: [{name: r, exactly: {deviceClassName: %s%s}}]%s}", class, more, devices)
}

// configured is one with a configuration of a kind.
func configured(class, kind, more string) string {
	return one(class, "", fmt.Sprintf(", config: [{opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: %s%s}}}]", kind, more))
}

// selecting is one with a selector.
func selecting(class, expression string) string {
	return one(class, fmt.Sprintf(", selectors: [{cel: {expression: %q}}]", expression), "")
}

func TestClaimErrors(t *testing.T) {
	const none = "and this claim asks for none"
	tests := map[string]struct {
		spec string
		want []string
	}{
		"GPU":                         {spec: configured("gpu.cleave.dev", "GPUConfig", ", computeMode: Default")},
		"slice":                       {spec: configured("mig.cleave.dev", "MIGConfig", "")},
		"profile":                     {spec: configured("mig-1g.10gb.cleave.dev", "MIGConfig", "")},
		"NIC":                         {spec: configured("rdma.cleave.dev", "RDMAConfig", "")},
		"pair":                        {spec: configured("gpu-nic.cleave.dev", "RDMAConfig", "")},
		"class of all types":          {spec: configured("all.cleave.dev", "MIGConfig", "")},
		"class without selectors":     {spec: configured("everything", "MIGConfig", "")},
		"class that is not there yet": {spec: configured("gone.cleave.dev", "MIGConfig", "")},
		"class that cannot be read":   {spec: configured("unread.cleave.dev", "MIGConfig", "")},
		"GPU of two drivers":          {spec: configured("two-drivers", "GPUConfig", "")},

		"WEBH-02 misspelt field": {spec: configured("gpu.cleave.dev", "GPUConfig", ", computeMod: Default"),
			want: []string{`spec.devices.config[0].opaque.parameters.computeMod: Forbidden: unknown field of GPUConfig`}},
		"WEBH-01 wrong kind": {spec: configured("gpu.cleave.dev", "GpuConfig", ""),
			want: []string{`spec.devices.config[0].opaque.parameters.kind: Unsupported value: "GpuConfig": supported values: "GPUConfig", "MIGConfig", "RDMAConfig"`}},
		"slice configured as GPU": {spec: configured("mig.cleave.dev", "GPUConfig", ""),
			want: []string{`spec.devices.config[0].opaque.parameters: Invalid value: "GPUConfig": GPUConfig configures whole GPUs, ` + none}},
		"GPU configured as slice": {spec: configured("gpu.cleave.dev", "MIGConfig", ""),
			want: []string{`spec.devices.config[0].opaque.parameters: Invalid value: "MIGConfig": MIGConfig configures MIG slices, ` + none}},
		"type told by the request": {
			spec: `devices: {requests: [{name: r, exactly: {deviceClassName: all.cleave.dev, selectors: [{cel: {expression: 'device.attributes["cleave.dev"].type == "nic"'}}]}}],
				config: [{requests: [r], opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: GPUConfig}}}]}`,
			want: []string{`spec.devices.config[0].requests[0]: Invalid value: "r": GPUConfig configures whole GPUs, and this request asks for none`}},
		"two drivers, but no slices": {spec: configured("two-drivers", "MIGConfig", ""),
			want: []string{`spec.devices.config[0].opaque.parameters: Invalid value: "MIGConfig": MIGConfig configures MIG slices, ` + none}},
		"for another driver's device": {spec: configured("gpu.nvidia.com", "GPUConfig", ""),
			want: []string{`spec.devices.config[0].opaque.parameters: Invalid value: "GPUConfig": GPUConfig configures whole GPUs, ` + none}},
		"WEBH-05 admin access": {spec: strings.Replace(configured("gpu.cleave.dev", "GPUConfig", ""), "{deviceClassName", "{adminAccess: true, deviceClassName", 1),
			want: []string{`spec.devices.config[0].opaque.parameters: Forbidden: GPUConfig covers request "r", which has admin access and so must not change the device; name other requests in spec.devices.config[0].requests`}},
		"WEBH-05 admin access, not certain": {spec: strings.Replace(configured("two-drivers", "GPUConfig", ""), "{deviceClassName", "{adminAccess: true, deviceClassName", 1)},

		"WEBH-03 alternatives, everything at once": {
			spec: `
devices:
  requests:
  - name: a
    firstAvailable:
    - {name: big, deviceClassName: gpu.cleave.dev}
    - {name: small, deviceClassName: mig.cleave.dev}
  - name: b
    exactly: {deviceClassName: rdma.cleave.dev}
  config:
  - requests: [a]
    opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: MIGConfig, computeInstances: [{slices: 5}, {slices: 1, count: 9}]}}
  - requests: [a/big, b]
    opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: MIGConfig}}
  - requests: [a]
    opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: RDMAConfig}}
  - requests: [b]
    opaque: {driver: gpu.nvidia.com, parameters: {kind: Whatever}}
`,
			want: []string{
				`spec.devices.config[0].opaque.parameters.computeInstances[0].slices: Invalid value: 5: want 1, 2, 3, 4, 6, 7 or 8 compute slices`,
				`spec.devices.config[0].opaque.parameters.computeInstances[1].count: Invalid value: 9: want 1 to 8`,
				`spec.devices.config[1].requests[0]: Invalid value: "a/big": MIGConfig configures MIG slices, and this request asks for none`,
				`spec.devices.config[1].requests[1]: Invalid value: "b": MIGConfig configures MIG slices, and this request asks for none`,
				`spec.devices.config[2].requests[0]: Invalid value: "a": RDMAConfig configures NICs, and this request asks for none`,
			}},
	}
	r := reviewer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := r.Claim(decode[resourceapi.ResourceClaimSpec](t, tc.spec), known(), field.NewPath("spec"))
			if diff := cmp.Diff(tc.want, errorsOf(d)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimsOfOtherDrivers: they pass, and nobody says anything about them.
func TestClaimsOfOtherDriversWEBH01(t *testing.T) {
	tests := map[string]string{
		"no requests":              `devices: {}`,
		"neither form":             `devices: {requests: [{name: r}]}`,
		"all of them":              one("gpu.nvidia.com", ", allocationMode: All", ""),
		"a selector that fails":    selecting("gpu.nvidia.com", `device.attributes["gpu.nvidia.com"].nothing == 1`),
		"a selector without CEL":   one("gpu.nvidia.com", ", selectors: [{}]", ""),
		"a selector that is wrong": selecting("gpu.nvidia.com", `device.`),
		"class without selectors":  selecting("everything", `device.attributes["gpu.nvidia.com"].nothing == 1`),
		"class that is not known":  one("whatever", ", count: 30", ""),
		"their configuration":      one("gpu.nvidia.com", "", `, config: [{opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, x: 1}}}]`),
		"memory":                   selecting("gpu.nvidia.com", `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0`),
		"many equal ones, many constraints": `devices: {requests: [` + repeat(16, `{name: r%d, exactly: {deviceClassName: gpu.nvidia.com}}`) + `], constraints: [` +
			repeat(16, `{requests: [r%d], matchAttribute: resource.kubernetes.io/pcieRoot}`) + `]}`,
	}
	r := reviewer(t)
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			d := r.Claim(decode[resourceapi.ResourceClaimSpec](t, spec), known(), field.NewPath("spec"))
			if len(d.Errors) > 0 || len(d.Warnings) > 0 {
				t.Errorf("errors %v, warnings %q", d.Errors, d.Warnings)
			}
		})
	}
}

// repeat joins n lines with their numbers in them.
func repeat(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, strings.ReplaceAll(format, "%d", fmt.Sprint(i)))
	}
	return strings.Join(out, ", ")
}
