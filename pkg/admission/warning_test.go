package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestClaimWarnings(t *testing.T) {
	const (
		exactly  = "spec.devices.requests[0].exactly"
		selector = exactly + ".selectors[0]: "
		all      = ", allocationMode: All"
		mixed    = exactly + ".allocationMode: All can never be met where devices of several types match, since a GPU and its parts cannot be had at once: select one type, or ask for a count"
	)
	tests := map[string]struct {
		spec string
		want []string
	}{
		"a GPU":             {spec: one("gpu.cleave.dev", "", "")},
		"all GPUs":          {spec: one("gpu.cleave.dev", all, "")},
		"all NICs":          {spec: one("rdma.cleave.dev", all, "")},
		"all of everything": {spec: one("all.cleave.dev", all, ""), want: []string{mixed}},
		"all slices": {spec: one("mig.cleave.dev", all, ""),
			want: []string{exactly + ".allocationMode: All asks for every MIG slice that could be made, and those of one GPU exclude each other: it is met only where no GPU offers more than one that matches; ask for a count"}},
		"all of one type, told by the request": {spec: one("all.cleave.dev", all+`, selectors: [{cel: {expression: 'device.attributes["cleave.dev"].type == "gpu"'}}]`, "")},
		"no such class": {spec: one("gone.cleave.dev", all, ""),
			want: []string{exactly + `.deviceClassName: there is no DeviceClass "gone.cleave.dev"; until there is, pods with this claim stay pending`}},
		"class that cannot be read": {spec: one("unread.cleave.dev", ", count: 32", "")},

		"no driver": {spec: selecting("everything", `device.attributes["cleave.dev"].type == "gpu"`),
			want: []string{selector + `fails on devices of other drivers (no such key: type), and then the pod stays pending: begin with device.driver == "cleave.dev" &&`}},
		"driver":                  {spec: selecting("everything", `device.driver == "cleave.dev" && device.attributes["cleave.dev"].type == "gpu"`)},
		"no driver, but optional": {spec: selecting("everything", `device.attributes["cleave.dev"].?type.orValue("") == "gpu"`)},
		"driver in the class":     {spec: selecting("gpu.cleave.dev", `device.attributes["cleave.dev"].productName == "NVIDIA H100 80GB HBM3"`)},

		"always there": {spec: selecting("mig.cleave.dev", `device.attributes["cleave.dev"].profile == "2g.20gb" && device.attributes["cleave.dev"].driverVersion.isGreaterThan(semver("570.0.0"))`)},
		"of another type": {spec: selecting("gpu.cleave.dev", `device.attributes["cleave.dev"].profile == "2g.20gb"`),
			want: []string{selector + `fails on whole GPUs that lack what it reads (no such key: profile), and then the pod stays pending: write .?profile.orValue(...), or ask has(...) before`}},
		"not on all NICs": {spec: selecting("rdma.cleave.dev", `device.attributes["cleave.dev"].rail == 3`),
			want: []string{selector + `fails on NICs that lack what it reads (no such key: rail), and then the pod stays pending: write .?rail.orValue(...), or ask has(...) before`}},
		"not on all NICs, guarded":      {spec: selecting("rdma.cleave.dev", `has(device.attributes["cleave.dev"].rail) && device.attributes["cleave.dev"].rail == 3`)},
		"not on all NICs, other choice": {spec: selecting("rdma.cleave.dev", `device.attributes["cleave.dev"].?rail.orValue(-1) == 3`)},
		"no link, no bandwidth": {spec: selecting("rdma.cleave.dev", `device.capacity["cleave.dev"].bandwidth.compareTo(quantity("400G")) >= 0`),
			want: []string{selector + `fails on NICs that lack what it reads (no such key: bandwidth), and then the pod stays pending: write .?bandwidth.orValue(...), or ask has(...) before`}},
		"in an alternative": {spec: `devices: {requests: [{name: r, firstAvailable: [{name: a, deviceClassName: gpu.cleave.dev}, {name: b, deviceClassName: mig.cleave.dev, selectors: [{cel: {expression: 'device.capacity["cleave.dev"].encoders.isGreaterThan(quantity("0"))'}}]}]}]}`,
			want: []string{`spec.devices.requests[0].firstAvailable[1].selectors[0]: fails on MIG slices that lack what it reads (no such key: encoders), and then the pod stays pending: write .?encoders.orValue(...), or ask has(...) before`}},

		"memory by the name": {spec: selecting("mig.cleave.dev", `device.capacity["cleave.dev"].memory.compareTo(quantity("20Gi")) >= 0`),
			want: []string{selector + `leaves out what has a little less memory than its name says (1g.20gb has 19.50 GiB, 2g.20gb has 19.50 GiB, 2 more): compare with clearly less`}},
		"memory above the name": {spec: selecting("mig.cleave.dev", `device.capacity["cleave.dev"].memory.isGreaterThan(quantity("20Gi"))`),
			want: []string{selector + `leaves out what has a little less memory than its name says (1g.20gb has 19.50 GiB, 2g.20gb has 19.50 GiB, 2 more): compare with clearly less`}},
		"memory turned round": {spec: selecting("mig.cleave.dev", `quantity("20Gi").compareTo(device.capacity["cleave.dev"].memory) <= 0`),
			want: []string{selector + `leaves out what has a little less memory than its name says (1g.20gb has 19.50 GiB, 2g.20gb has 19.50 GiB, 2 more): compare with clearly less`}},
		"memory of a GPU": {spec: selecting("gpu.cleave.dev", `device.capacity["cleave.dev"].memory.compareTo(quantity("141Gi")) >= 0`),
			want: []string{selector + `leaves out what has a little less memory than its name says (NVIDIA H200 has 140.40 GiB): compare with clearly less`}},
		"memory as advised":       {spec: selecting("mig.cleave.dev", `device.capacity["cleave.dev"].memory.isGreaterThan(quantity("15Gi"))`)},
		"memory, at most":         {spec: selecting("mig.cleave.dev", `device.capacity["cleave.dev"].memory.compareTo(quantity("20Gi")) <= 0`)},
		"memory in gigabytes":     {spec: selecting("mig.cleave.dev", `device.capacity["cleave.dev"].memory.compareTo(quantity("20G")) >= 0`)},
		"memory of one that fits": {spec: selecting("mig-1g.10gb.cleave.dev", `device.capacity["cleave.dev"].memory.compareTo(quantity("20Gi")) >= 0`)},
	}
	r := reviewer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := r.Claim(decode[resourceapi.ResourceClaimSpec](t, tc.spec), known(), field.NewPath("spec"))
			if len(d.Errors) > 0 {
				t.Errorf("errors %v", d.Errors)
			}
			if diff := cmp.Diff(tc.want, d.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShapeWarnings(t *testing.T) {
	const (
		equal = `spec.devices.requests: r0, r1, r2 and more ask for the same: where they just do not fit, the scheduler may search for seconds on each node; one request with a count takes milliseconds`
		first = `.exactly: ask for whole GPUs before slices: where both do not fit, the scheduler may search for more than 10 s on each node in this order, and for milliseconds in the other`
	)
	request := func(n int, class string) string {
		return repeat(n, `{name: r%d, exactly: {deviceClassName: `+class+`}}`)
	}
	pairs := func(n int, attribute string) string {
		return `devices: {requests: [` + repeat(n, `{name: n%d, exactly: {deviceClassName: rdma.cleave.dev}}, {name: g%d, exactly: {deviceClassName: gpu.cleave.dev}}`) +
			`], constraints: [` + repeat(n, `{requests: [n%d, g%d], matchAttribute: `+attribute+`}`) + `]}`
	}
	ordered := func(classes ...string) string {
		var out string
		for i, class := range classes {
			out += repeat(1, `{name: r`+string(rune('a'+i))+`, exactly: {deviceClassName: `+class+`}},`)
		}
		return `devices: {requests: [` + out + `]}`
	}
	tests := map[string]struct {
		spec string
		want []string
	}{
		"six equal requests":   {spec: `devices: {requests: [` + request(6, "gpu.cleave.dev") + `]}`},
		"seven equal requests": {spec: `devices: {requests: [` + request(7, "gpu.cleave.dev") + `]}`, want: []string{equal}},
		"eight on one GPU":     {spec: `devices: {requests: [` + request(8, "mig-1g.10gb.cleave.dev") + `], constraints: [{matchAttribute: cleave.dev/parentUUID}]}`, want: []string{equal}},
		"eight that differ":    {spec: `devices: {requests: [` + request(4, "gpu.cleave.dev") + `, ` + repeat(4, `{name: s%d, exactly: {deviceClassName: rdma.cleave.dev}}`) + `]}`},
		"a count":              {spec: one("gpu.cleave.dev", ", count: 16", "")},
		"some slices":          {spec: one("mig-1g.10gb.cleave.dev", ", count: 14", "")},
		"many slices": {spec: one("mig-1g.10gb.cleave.dev", ", count: 15", ""),
			want: []string{`spec.devices.requests[0].exactly.count: where 15 slices just do not fit, the scheduler may search for seconds on each node: ask for at most 12 in one claim`}},

		"four pairs": {spec: pairs(4, "cleave.dev/pcieSwitch")},
		"five pairs": {spec: pairs(5, "cleave.dev/pcieSwitch"),
			want: []string{`spec.devices.constraints: with 5 sets of devices that belong together, the scheduler may search for seconds on each node where they just do not fit: have at most 4, or ask for pairs (type gpu-nic) or whole nodes by a count`}},
		"eight pairs by the root": {spec: pairs(8, "resource.kubernetes.io/pcieRoot"),
			want: []string{`spec.devices.constraints: with 8 sets of devices that belong together, the scheduler may search for seconds on each node where they just do not fit: have at most 4, or ask for pairs (type gpu-nic) or whole nodes by a count`}},

		"large first":               {spec: ordered("gpu.cleave.dev", "mig.cleave.dev", "mig.cleave.dev")},
		"small first":               {spec: ordered("mig.cleave.dev", "rdma.cleave.dev", "mig-1g.10gb.cleave.dev", "gpu.cleave.dev"), want: []string{`spec.devices.requests[3]` + first}},
		"small first, before pairs": {spec: ordered("mig.cleave.dev", "mig-1g.10gb.cleave.dev", "gpu-nic.cleave.dev"), want: []string{`spec.devices.requests[2]` + first}},
		"one small first":           {spec: ordered("mig.cleave.dev", "gpu.cleave.dev")},
		"several small by a count first": {
			spec: `devices: {requests: [{name: a, exactly: {deviceClassName: mig-1g.10gb.cleave.dev, count: 3}}, {name: b, exactly: {deviceClassName: gpu.cleave.dev}}]}`,
			want: []string{`spec.devices.requests[1]` + first}},
		"alternatives": {spec: `devices: {requests: [{name: a, firstAvailable: [{name: x, deviceClassName: mig.cleave.dev, count: 2}, {name: y, deviceClassName: gpu.cleave.dev}]}]}`},
	}
	r := reviewer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := r.Claim(decode[resourceapi.ResourceClaimSpec](t, tc.spec), known(), field.NewPath("spec"))
			if diff := cmp.Diff(tc.want, d.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClass(t *testing.T) {
	const config = `, config: [{opaque: {driver: cleave.dev, parameters: {apiVersion: cleave.dev/v1alpha1, kind: MIGConfig}}}]}`
	own := func(expression string) string {
		return `{selectors: [{cel: {expression: 'device.driver == "cleave.dev" && device.attributes["cleave.dev"].` + expression + `'}}]`
	}
	tests := map[string]struct {
		spec             string
		errors, warnings []string
	}{
		"fits":             {spec: own(`type == "mig"`) + config},
		"fits by profile":  {spec: own(`?profile.orValue("") == "1g.10gb"`) + config},
		"not restricted":   {spec: `{selectors: []` + config},
		"of other drivers": {spec: `{selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'}}]}`},
		"another type": {spec: own(`type == "gpu"`) + config,
			errors: []string{`spec.config[0].opaque.parameters: Invalid value: "MIGConfig": MIGConfig configures MIG slices, and the selectors of this class select none`}},
		"of another driver": {spec: `{selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]` + config,
			errors: []string{`spec.config[0].opaque.parameters: Invalid value: "MIGConfig": MIGConfig configures MIG slices, and the selectors of this class select none`}},
		"wrong": {spec: `{config: [{}, {opaque: {driver: cleave.dev, parameters: {kind: MIGConfig}}}]}`,
			errors: []string{`spec.config[1].opaque.parameters.apiVersion: Required value: want cleave.dev/v1alpha1`}},
		"no driver": {spec: `{selectors: [{cel: {expression: 'device.attributes["cleave.dev"].type == "gpu"'}}]}`,
			warnings: []string{`spec.selectors[0]: fails on devices of other drivers (no such key: type), and then the pod stays pending: begin with device.driver == "cleave.dev" &&`}},
		"not guarded": {spec: own(`profile == "1g.10gb"`) + `}`,
			warnings: []string{
				`spec.selectors[0]: fails on whole GPUs that lack what it reads (no such key: profile), and then the pod stays pending: write .?profile.orValue(...), or ask has(...) before`,
			}},
		"does not compile": {spec: `{selectors: [{cel: {expression: 'cleave.dev &&'}}]` + config},
	}
	r := reviewer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := r.Class(decode[resourceapi.DeviceClassSpec](t, tc.spec))
			if diff := cmp.Diff(tc.errors, errorsOf(d)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, d.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
