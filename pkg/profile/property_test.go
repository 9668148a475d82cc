package profile_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	stdslices "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/cel"
	"pgregory.net/rapid"

	"github.com/cleave-dra/cleave/api/v1alpha1"
	"github.com/cleave-dra/cleave/pkg/profile"
	"github.com/cleave-dra/cleave/pkg/slices"
	"github.com/cleave-dra/cleave/test/testkit/crd"
)

// TestEveryProfile: whatever the API server takes as a profile becomes a claim that it
// takes too, and that cannot stop pods by an error, or is refused with a reason.
func TestEveryProfile(t *testing.T) {
	definition, err := crd.Load(filepath.Join("..", "..", "deployments", "helm", "cleave", "files", "crds", "cleave.dev_claimprofiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	divided := cluster(t, slices.Options{}, "dgx-h100", "mixed")
	divided.add(t, "a30x4", inMIGMode(t, "a30x4"), slices.Options{})
	divided.add(t, "dgx-a100", inMIGMode(t, "dgx-a100"), slices.Options{})
	worlds := []world{
		cluster(t, slices.Options{}, "dgx-h100"),
		cluster(t, slices.Options{Pairs: true}, "dgx-h100", "dgx-a100"),
		cluster(t, slices.Options{NICSharing: slices.NICByBandwidth}, "dgx-h100", "hgx-h200", "gb200-tray"),
		divided,
		{},
	}
	check := checker{compiled: map[string]cel.CompilationResult{}}
	rendered, refused := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		object := map[string]any{
			"apiVersion": "cleave.dev/v1alpha1", "kind": "ClaimProfile", "metadata": map[string]any{"name": "p"},
			"spec": drawSpec(rt),
		}
		raw, err := json.Marshal(object)
		if err != nil {
			rt.Fatal(err)
		}
		var typed v1alpha1.ClaimProfile
		if err := json.Unmarshal(raw, &typed); err != nil {
			rt.Fatal(err)
		}
		var generic map[string]any
		if err := json.Unmarshal(raw, &generic); err != nil {
			rt.Fatal(err)
		}
		if err := definition.Validate(t.Context(), generic); err != nil {
			rt.Fatalf("the API server would not take %s: %v", raw, err)
		}
		w := rapid.SampledFrom(worlds).Draw(rt, "world")
		claim, err := profile.Render(typed.Spec, w.inventory(), driver)
		var refusals profile.Refusals
		if errors.As(err, &refusals) {
			for _, r := range refusals {
				refused[r.Reason]++
				if len(validation.IsQualifiedName(r.Reason)) > 0 || r.Detail == "" || !strings.HasPrefix(r.Field.String(), "spec.") {
					rt.Fatalf("refused for reason %q: %v", r.Reason, r)
				}
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		rendered++
		again, err := profile.Render(typed.Spec, w.inventory(), driver)
		if diff := cmp.Diff(claim, again); err != nil || diff != "" {
			rt.Fatalf("once more: %v (-want +got):\n%s", err, diff)
		}
		if err := check.claim(t, claim.Spec.Devices, w); err != nil {
			rt.Fatalf("%s becomes %+v: %v", raw, claim.Spec, err)
		}
	})
	if rendered == 0 || len(refused) < 3 {
		t.Errorf("%d rendered, refused %v: too few to mean anything", rendered, refused)
	}
	t.Logf("%d rendered, refused %v", rendered, refused)
}

func drawSpec(t *rapid.T) map[string]any {
	var groups []any
	var names []string
	whole := false
	for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
		name := rapid.SampledFrom([]string{"a", "a-nic", "a-gpu", "a-0-nic", strings.Repeat("g", 47)}).Draw(t, "name")
		if stdslices.Contains(names, name) {
			name = fmt.Sprintf("b%d", i)
		}
		names = append(names, name)
		g := drawGroup(t, !whole)
		g["name"] = name
		whole = whole || g["wholeNode"] == true
		groups = append(groups, g)
	}
	spec := map[string]any{"groups": groups}
	if rapid.IntRange(0, 3).Draw(t, "constraint") == 0 {
		c := map[string]any{"match": rapid.SampledFrom([]string{"ParentGPU", "NVLinkDomain"}).Draw(t, "match")}
		if rapid.Bool().Draw(t, "named") {
			c["groups"] = []any{rapid.SampledFrom(names).Draw(t, "of")}
		}
		spec["constraints"] = []any{c}
	}
	return spec
}

func drawGroup(t *rapid.T, mayBeWhole bool) map[string]any {
	var g map[string]any
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		var alternatives []any
		kinds := []string{"gpu", "mig", "gpuWithNIC"}
		if rapid.IntRange(0, 3).Draw(t, "nics") == 0 {
			kinds = []string{"nic"}
		}
		for range rapid.IntRange(2, 8).Draw(t, "alternatives") {
			alternatives = append(alternatives, drawMembers(t, kinds))
		}
		g = map[string]any{"firstAvailable": alternatives}
	case 1:
		g = drawMembers(t, []string{"gpu", "gpuWithNIC"})
		if mayBeWhole {
			g["wholeNode"] = true
			if rapid.Bool().Draw(t, "uncounted") {
				delete(g, "count")
			}
		}
	default:
		g = drawMembers(t, []string{"gpu", "mig", "nic", "gpuWithNIC"})
	}
	if rapid.IntRange(0, 2).Draw(t, "config") == 0 {
		g["config"] = []any{map[string]any{
			"apiVersion": "cleave.dev/v1alpha1", "kind": rapid.SampledFrom([]string{"GPUConfig", "MIGConfig", "RDMAConfig"}).Draw(t, "kind"),
			"text": strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 0, 10200}).Draw(t, "length")),
		}}
	}
	return g
}

func drawMembers(t *rapid.T, kinds []string) map[string]any {
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	m := map[string]any{}
	maybe := func(field string, values ...any) {
		if rapid.IntRange(0, 2).Draw(t, field+"?") == 0 {
			m[field] = rapid.SampledFrom(values).Draw(t, field)
		}
	}
	if kind != "nic" {
		maybe("model", strings.Repeat("Q", 63), "H100", "a100", "NVIDIA H100 80GB HBM3", "A30", "B200", "X.Y_Z-1")
		maybe("architecture", "Hopper", "Ampere", "Ada Lovelace")
	}
	if kind == "gpu" || kind == "gpuWithNIC" {
		maybe("memory", "20Gi", "79Gi", "80Gi", 1, "1e30", "0.5", "100m", "1Ei")
	}
	if kind == "nic" || kind == "gpuWithNIC" {
		maybe("bandwidth", "400G", "200G", "1", "1500M", 400000000000, "9E")
		maybe("linkLayer", "InfiniBand", "Ethernet")
	}
	if kind == "mig" {
		if rapid.Bool().Draw(t, "by profile") {
			m["profile"] = rapid.SampledFrom([]string{"1g.10gb", "1g.10gb+me", "3g.40gb", "7g.80gb", "2g.12gb", "1g.24gb-me", "1g.5gb+me.all"}).Draw(t, "profile")
		} else {
			maybe("memory", "5Gi", "10Gi", "15Gi", "20Gi", "30Gi", "100Gi", "1n")
			m["computeSlices"] = rapid.SampledFrom([]any{1, 2, 3, 7, 8}).Draw(t, "computeSlices")
		}
	}
	out := map[string]any{kind: m}
	if rapid.Bool().Draw(t, "counted") {
		out["count"] = rapid.SampledFrom([]any{1, 2, 3, 4, 5, 7, 8, 9, 32}).Draw(t, "count")
	}
	return out
}

// checker checks claims as the API server does (Kubernetes' pkg/apis/resource/validation),
// and their selectors on every device.
type checker struct {
	compiled map[string]cel.CompilationResult
}

func (c checker) claim(t *testing.T, d resourceapi.DeviceClaim, w world) error {
	errs := []error{
		atMost("requests", len(d.Requests), resourceapi.DeviceRequestsMaxSize),
		atMost("constraints", len(d.Constraints), resourceapi.DeviceConstraintsMaxSize),
		atMost("configurations", len(d.Config), resourceapi.DeviceConfigMaxSize),
	}
	names := map[string]bool{}
	total := int64(0)
	for _, r := range d.Requests {
		errs = append(errs, label(r.Name, names, r.Name))
		if (r.Exactly == nil) == (len(r.FirstAvailable) == 0) {
			errs = append(errs, fmt.Errorf("request %s: not one of exactly and firstAvailable", r.Name))
		}
		errs = append(errs, atMost("alternatives", len(r.FirstAvailable), resourceapi.FirstAvailableDeviceRequestMaxSize))
		most := int64(0)
		if e := r.Exactly; e != nil {
			most = e.Count
			errs = append(errs, c.device(t, w, e.DeviceClassName, e.AllocationMode, e.Count, e.Selectors))
		}
		for _, s := range r.FirstAvailable {
			most = max(most, s.Count)
			errs = append(errs, label(s.Name, names, r.Name+"/"+s.Name), c.device(t, w, s.DeviceClassName, s.AllocationMode, s.Count, s.Selectors))
		}
		total += most
	}
	errs = append(errs, atMost("devices", int(total), resourceapi.AllocationResultsMaxSize))
	for _, constraint := range d.Constraints {
		if constraint.MatchAttribute == nil || !strings.HasPrefix(string(*constraint.MatchAttribute), driver+"/") {
			errs = append(errs, fmt.Errorf("constraint without an attribute: %+v", constraint))
		}
		errs = append(errs, known(constraint.Requests, names))
	}
	for _, config := range d.Config {
		errs = append(errs, known(config.Requests, names), atMost("bytes", len(config.Opaque.Parameters.Raw), resourceapi.OpaqueParametersMaxLength))
		if config.Opaque.Driver != driver {
			errs = append(errs, fmt.Errorf("configuration for driver %s", config.Opaque.Driver))
		}
	}
	return errors.Join(errs...)
}

func atMost(what string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("%d %s, at most %d", n, what, limit)
	}
	return nil
}

func label(s string, seen map[string]bool, full string) error {
	if seen[full] {
		return fmt.Errorf("request %s twice", full)
	}
	seen[full] = true
	if msgs := validation.IsDNS1123Label(s); len(msgs) > 0 {
		return fmt.Errorf("request %s: %v", s, msgs)
	}
	return nil
}

func known(names []string, all map[string]bool) error {
	seen := map[string]bool{}
	for _, name := range names {
		if !all[name] || seen[name] {
			return fmt.Errorf("reference to %s, requests are %v", name, stdslices.Sorted(maps.Keys(all)))
		}
		seen[name] = true
	}
	if len(names) == 0 {
		return errors.New("a reference to all requests")
	}
	return nil
}

// device checks what a request or an alternative asks for.
func (c checker) device(t *testing.T, w world, class string, mode resourceapi.DeviceAllocationMode, count int64, selectors []resourceapi.DeviceSelector) error {
	var errs []error
	if msgs := validation.IsDNS1123Subdomain(class); len(msgs) > 0 {
		errs = append(errs, fmt.Errorf("class %s: %v", class, msgs))
	}
	if mode != resourceapi.DeviceAllocationModeExactCount || count < 1 {
		errs = append(errs, fmt.Errorf("mode %s, count %d", mode, count))
	}
	for _, s := range selectors {
		errs = append(errs, c.expression(t, w, s.CEL.Expression))
	}
	return errors.Join(errs...)
}

// expression has to compile within the API server's limits, and to be true or false, not
// an error, of every device: of those here, of one without attributes, and of a driver
// that calls its attributes the same.
func (c checker) expression(t *testing.T, w world, expression string) error {
	if _, ok := c.compiled[expression]; ok {
		return nil
	}
	result := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, cel.Options{})
	c.compiled[expression] = result
	if result.Error != nil {
		return fmt.Errorf("compile %s: %w", expression, result.Error)
	}
	if result.MaxCost > resourceapi.CELSelectorExpressionMaxCost || len(expression) > resourceapi.CELSelectorExpressionMaxLength {
		return fmt.Errorf("%s costs %d and has %d bytes", expression, result.MaxCost, len(expression))
	}
	devices := []cel.Device{{Driver: driver}, {Driver: "gpu.nvidia.com"}}
	for _, s := range w.slices {
		for _, d := range s.Spec.Devices {
			devices = append(devices, cel.Device{Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity, AllowMultipleAllocations: d.AllowMultipleAllocations})
		}
	}
	for _, d := range devices {
		matches, _, err := result.DeviceMatches(t.Context(), d)
		if err != nil || matches && d.Driver != driver {
			return fmt.Errorf("%s on a device of %s: %v, %w", expression, d.Driver, matches, err)
		}
	}
	return nil
}
