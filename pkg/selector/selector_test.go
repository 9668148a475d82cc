package selector

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const dra = `device.attributes["cleave.dev"]`

func TestAsk(t *testing.T) {
	known := Known{
		Driver: "cleave.dev",
		Text:   map[resourceapi.QualifiedName]string{"type": "mig"},
		Size:   map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("9984Mi")},
		// It has neither rail nor encoders.
		Attributes: []resourceapi.QualifiedName{"profile", "driverVersion", "resource.kubernetes.io/numaNode"},
		Capacity:   []resourceapi.QualifiedName{"multiprocessors"},
	}
	tests := map[string]struct {
		expression string
		want       Answer
		reason     string
	}{
		"driver":                       {expression: `device.driver == "cleave.dev"`, want: Maybe},
		"other driver":                 {expression: `device.driver == "gpu.nvidia.com"`, want: No},
		"type":                         {expression: dra + `.type == "mig"`, want: Maybe},
		"other type":                   {expression: dra + `.type == "gpu"`, want: No},
		"type by index":                {expression: dra + `["type"] == "gpu"`, want: No},
		"type by has":                  {expression: `has(` + dra + `.type)`, want: Maybe},
		"one of some types":            {expression: dra + `.type in ["gpu", "nic"]`, want: No},
		"bound":                        {expression: `cel.bind(d, ` + dra + `, d.type == "gpu")`, want: Maybe}, // not seen through
		"unknown value":                {expression: dra + `.profile == "1g.10gb"`, want: Maybe},
		"unknown, optional":            {expression: dra + `.?profile.orValue("") == "1g.10gb"`, want: Maybe},
		"unknown and no":               {expression: dra + `.profile == "1g.10gb" && ` + dra + `.type == "gpu"`, want: No},
		"unknown or no":                {expression: dra + `.profile == "1g.10gb" || ` + dra + `.type == "gpu"`, want: Maybe},
		"unknown version":              {expression: dra + `.driverVersion.isGreaterThan(semver("1.0.0"))`, want: Maybe},
		"unknown, in another domain":   {expression: `device.attributes["resource.kubernetes.io"].numaNode == 1`, want: Maybe},
		"unknown, may allow several":   {expression: `device.allowMultipleAllocations`, want: Maybe},
		"unknown capacity":             {expression: `device.capacity["cleave.dev"].multiprocessors.isGreaterThan(quantity("7"))`, want: Maybe},
		"enough memory":                {expression: `device.capacity["cleave.dev"].memory.compareTo(quantity("9Gi")) >= 0`, want: Maybe},
		"too little memory":            {expression: `device.capacity["cleave.dev"].memory.compareTo(quantity("10Gi")) >= 0`, want: No},
		"lacks it":                     {expression: dra + `.rail == 0`, want: Fails, reason: "no such key: rail"},
		"lacks it, guarded by has":     {expression: `has(` + dra + `.rail) && ` + dra + `.rail == 0`, want: No},
		"lacks it, optional":           {expression: dra + `.?rail.orValue(0) == 0`, want: Maybe},
		"lacks it, and unknown":        {expression: dra + `.profile == "1g.10gb" && ` + dra + `.rail == 0`, want: Fails, reason: "no such key: rail"},
		"lacks it, and no":             {expression: dra + `.type == "gpu" && ` + dra + `.rail == 0`, want: No},
		"lacks it, and no, afterwards": {expression: dra + `.rail == 0 && ` + dra + `.type == "gpu"`, want: No},
		"lacks the capacity":           {expression: `device.capacity["cleave.dev"].encoders.isGreaterThan(quantity("0"))`, want: Fails, reason: "no such key: encoders"},
		"lacks the domain":             {expression: `device.attributes["other.example"].x == 1`, want: Fails, reason: "no such key: x"},
		"lacks the domain, optional":   {expression: `device.attributes["other.example"].?x.orValue(1) == 2`, want: No},
		"not a boolean":                {expression: dra + `.type`, want: Maybe},
		"compares what cannot be":      {expression: dra + `.type.startsWith("m") && ` + dra + `.profile.endsWith("gb")`, want: Maybe},
		"always":                       {expression: `true`, want: Maybe},
		"never":                        {expression: `false`, want: No},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			d, err := NewDevice(known)
			if err != nil {
				t.Fatal(err)
			}
			if got, reason := s.Ask(d); got != tc.want || reason != tc.reason {
				t.Errorf("%s: answer %d (%q), want %d (%q)", tc.expression, got, reason, tc.want, tc.reason)
			}
		})
	}
}

// TestEndlessSelectors: what anybody may write does not keep the controller busy.
func TestEndlessSelectors(t *testing.T) {
	list := "[" + strings.Repeat("1, ", 49) + "1]"
	slow := list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b == c + 1))) == false"
	tests := map[string]struct {
		expression string
		want       Answer
	}{
		"slow":              {expression: slow, want: Maybe}, // in truth it is no
		"slow, but no":      {expression: slow + ` && ` + dra + `.type == "gpu"`, want: No},
		"many parts":        {expression: strings.Repeat(`true && `, 1000) + dra + `.type == "gpu"`, want: No},
		"many parts, lacks": {expression: strings.Repeat(`true && `, 1000) + dra + `.rail == 0`, want: Fails},
	}
	d, err := NewDevice(Known{Driver: "cleave.dev", Text: map[resourceapi.QualifiedName]string{"type": "mig"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got, reason := s.Ask(d); got != tc.want {
				t.Errorf("answer %d (%s), want %d", got, reason, tc.want)
			}
			if len(s.conjuncts) > maxConjuncts {
				t.Errorf("made of %d parts", len(s.conjuncts))
			}
		})
	}
}

func TestAll(t *testing.T) {
	d, err := NewDevice(Known{Driver: "cleave.dev", Text: map[resourceapi.QualifiedName]string{"type": "nic"}})
	if err != nil {
		t.Fatal(err)
	}
	yes, no, fails := `device.driver == "cleave.dev"`, dra+`.type == "gpu"`, dra+`.rail == 0`
	tests := map[string]struct {
		expressions []string
		want        Answer
		failing     int
	}{
		"none":               {want: Maybe, failing: -1},
		"no before it fails": {expressions: []string{yes, no, fails}, want: No, failing: -1},
		"fails before no":    {expressions: []string{yes, fails, no}, want: Fails, failing: 1},
		"yes":                {expressions: []string{yes, yes}, want: Maybe, failing: -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var selectors []*Selector
			for _, e := range tc.expressions {
				s, err := Compile(e)
				if err != nil {
					t.Fatal(err)
				}
				selectors = append(selectors, s)
			}
			if got, failing, _ := All(selectors, d); got != tc.want || failing != tc.failing {
				t.Errorf("answer %d, selector %d; want %d, %d", got, failing, tc.want, tc.failing)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, expression := range []string{``, `device.`, `device.nothing == 1`, `1 + 1`} {
		if _, err := Compile(expression); err == nil || !strings.Contains(err.Error(), "compile selector") {
			t.Errorf("%q: got %v, want an error that says what was tried", expression, err)
		}
	}
}
