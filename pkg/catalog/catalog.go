// Package catalog holds the GPU models and servers that the simulated hardware
// knows, as embedded YAML. Each value states its public source, or the name of
// the rule that infers it (it loads with a Warning), or is absent, and then
// whatever needs it is refused with an error.
package catalog

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed models geometries nics servers rules.yaml
var files embed.FS

// ErrNotKnown is why a model is refused of which the catalog does not know all that
// the simulation needs.
var ErrNotKnown = errors.New("value is not known")

// Warning says that a value rests on a rule, not on a source.
type Warning struct {
	// Subject is the model, geometry or server that holds the value.
	Subject string
	// Field is the value's path in its YAML file.
	Field string
	// Rule is the rule's name, Text what it says.
	Rule, Text string
}

// String is one line for a person.
func (w Warning) String() string {
	return fmt.Sprintf("%s: %s is inferred (%s): %s", w.Subject, w.Field, w.Rule, w.Text)
}

// Models are the names of the known models, sorted.
func Models() []string { return names("models") }

// Servers are the names of the known servers, sorted.
func Servers() []string { return names("servers") }

func names(dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: cannot fail in a binary that was built
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// load decodes one embedded file strictly into out.
func load(dir, name string, out any) error {
	if known := names(dir); !slices.Contains(known, name) {
		return fmt.Errorf("%s %q is not in the catalog: known are %s", strings.TrimSuffix(dir, "s"), name, strings.Join(known, ", "))
	}
	raw, err := files.ReadFile(path.Join(dir, name+".yaml"))
	if err != nil {
		return fmt.Errorf("read %s/%s: %w", dir, name, err)
	}
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		return fmt.Errorf("decode %s/%s.yaml: %w", dir, name, err)
	}
	return nil
}

// provenance is where a value comes from: exactly one of the two is set.
type provenance struct {
	// Source is a key of the file's sources.
	Source string `json:"source,omitempty"`
	// Inferred is a key of rules.yaml.
	Inferred string `json:"inferred,omitempty"`
}

// fact is a value and where it comes from.
type fact[T any] struct {
	provenance
	Value *T `json:"value,omitempty"`
}

// reader collects the warnings and errors of one file.
type reader struct {
	subject  string
	sources  map[string]string
	rules    map[string]string
	used     map[string]bool
	warnings []Warning
	errs     []error
}

func newReader(subject string, sources map[string]string) (*reader, error) {
	raw, err := files.ReadFile("rules.yaml")
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	r := &reader{subject: subject, sources: sources, rules: map[string]string{}, used: map[string]bool{}}
	if err := yaml.UnmarshalStrict(raw, &r.rules); err != nil {
		return nil, fmt.Errorf("decode rules.yaml: %w", err)
	}
	return r, nil
}

// from checks where a value comes from.
func (r *reader) from(field string, p provenance) {
	switch {
	case (p.Source == "") == (p.Inferred == ""):
		r.fail(field, "name either a source or the rule that infers it")
	case p.Source != "" && r.sources[p.Source] == "":
		r.fail(field, "unknown source %q", p.Source)
	case p.Source != "":
		r.used[p.Source] = true
	case r.rules[p.Inferred] == "":
		r.fail(field, "unknown rule %q", p.Inferred)
	default:
		r.warnings = append(r.warnings, Warning{Subject: r.subject, Field: field, Rule: p.Inferred, Text: strings.TrimSpace(r.rules[p.Inferred])})
	}
}

func (r *reader) fail(field, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s: %s", r.subject, field, fmt.Sprintf(format, args...)))
}

func (r *reader) unknown(field string) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s: %w", r.subject, field, ErrNotKnown))
}

// finish reports sources that nothing names, since they are likely typing errors.
func (r *reader) finish() {
	for _, s := range slices.Sorted(maps.Keys(r.sources)) {
		if !r.used[s] {
			r.fail("sources."+s, "nothing names this source")
		}
	}
}

// need is a value that must be known.
func need[T any](r *reader, field string, f fact[T]) T {
	if f.Value == nil {
		r.unknown(field)
		var zero T
		return zero
	}
	r.from(field, f.provenance)
	return *f.Value
}

// maybe is a value that may be unknown: it is 0 then.
func maybe[T any](r *reader, field string, f fact[T]) T {
	if f.Value == nil {
		var zero T
		return zero
	}
	return need(r, field, f)
}
