package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// function is a prototype of nvml.h.
type function struct {
	name   string
	params []param
}

// param is one of its parameters.
type param struct {
	name string
	// base is the type without const and the star.
	base           string
	pointer, input bool
	// versioned tells that the pointed-to struct begins with its version.
	versioned bool
}

// local are the functions that the shim answers itself.
var local = map[string]bool{
	"nvmlInit": true, "nvmlInit_v2": true, "nvmlInitWithFlags": true, "nvmlShutdown": true, "nvmlErrorString": true,
}

var (
	attributePattern = regexp.MustCompile(`__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)`)
	prototypePattern = regexp.MustCompile(`\b(nvml\w+)\s*\(([^()]*)\)\s*;`)
	paramPattern     = regexp.MustCompile(`^(const )?(.*?)( ?\*)? ?(\w+)$`)
	versionPattern   = regexp.MustCompile(`NVML_STRUCT_VERSION\((\w+), *(\d+)\)`)
	aliasPattern     = regexp.MustCompile(`typedef (nvml\w+_t) (nvml\w+_t);`)
)

// parse reads all prototypes, the unversioned names as well as the versioned.
func parse(header string) ([]function, error) {
	text, err := command("gcc", "-E", "-P", "-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-x", "c", header)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(header)
	if err != nil {
		return nil, err
	}
	versioned := map[string]bool{}
	for _, m := range versionPattern.FindAllStringSubmatch(string(raw), -1) {
		versioned[fmt.Sprintf("nvml%s_v%s_t", m[1], m[2])] = true
	}
	for _, m := range aliasPattern.FindAllStringSubmatch(text, -1) {
		versioned[m[2]] = versioned[m[2]] || versioned[m[1]]
	}
	var out []function
	for _, m := range prototypePattern.FindAllStringSubmatch(attributePattern.ReplaceAllString(text, ""), -1) {
		f := function{name: m[1]}
		if local[f.name] {
			continue
		}
		for _, p := range strings.Split(m[2], ",") {
			p = strings.Join(strings.Fields(p), " ")
			if p == "void" || p == "" {
				continue
			}
			parts := paramPattern.FindStringSubmatch(p)
			if parts == nil || strings.ContainsAny(parts[2], "*[") {
				return nil, fmt.Errorf("%s: cannot read parameter %q", f.name, p)
			}
			f.params = append(f.params, param{
				name: parts[4], base: strings.TrimSpace(parts[2]), pointer: parts[3] != "", input: parts[1] != "",
				versioned: versioned[strings.TrimSpace(parts[2])],
			})
		}
		out = append(out, f)
	}
	if len(out) < 400 {
		return nil, fmt.Errorf("%s: only %d prototypes found", header, len(out))
	}
	return out, nil
}

// measure asks the C compiler for the size of every parameter's base type.
func measure(header string, functions []function) (map[string]int, error) {
	var program strings.Builder
	fmt.Fprintf(&program, "#include %q\n#include <stdio.h>\nint main(void) {\n", header)
	seen := map[string]bool{}
	for _, f := range functions {
		for _, p := range f.params {
			if !seen[p.base] {
				fmt.Fprintf(&program, "printf(\"%%zu %s\\n\", sizeof(%s));\n", p.base, p.base)
			}
			seen[p.base] = true
		}
	}
	program.WriteString("return 0; }\n")
	dir, err := os.MkdirTemp("", "gen")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, binary := filepath.Join(dir, "sizes.c"), filepath.Join(dir, "sizes")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		return nil, err
	}
	if _, err := command("gcc", "-w", "-o", binary, source); err != nil {
		return nil, err
	}
	text, err := command(binary)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int{}
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscan(line, &n); err != nil {
			return nil, fmt.Errorf("read size %q: %w", line, err)
		}
		_, base, _ := strings.Cut(strings.TrimSpace(line), " ")
		sizes[base] = n
	}
	return sizes, nil
}
