// Package selector tells what the CEL selectors of requests and DeviceClasses would do
// with devices of which only a part is known, before there are any. It is pure.
package selector

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// Answer is what a selector says of a device.
type Answer int

const (
	// No: the selector does not select the device, whatever the unknown values are.
	No Answer = iota
	// Maybe: it selects the device, or it depends on the unknown values.
	Maybe
	// Fails: it cannot be evaluated, for example because the device lacks an attribute
	// that the selector reads. In the scheduler that ends the search on every node that
	// has such a device, and the pod stays pending.
	Fails
)

// Selector is a compiled expression. It is safe for concurrent use.
type Selector struct {
	// conjuncts are the parts between && on the outside. Taken one by one they tell
	// more than together: CEL says of (unknown && error) that it is unknown.
	conjuncts []cel.Program
}

// Selectors come from anybody who may make a claim. One that takes longer than any that
// makes sense is not understood.
const (
	maxCost      = 10_000 // in CEL's units; comparing an attribute takes about 5
	maxConjuncts = 64
)

// Compile reads a CEL expression as the scheduler does.
func Compile(expression string) (*Selector, error) {
	compiled := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}).
		CompileCELExpression(expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return nil, fmt.Errorf("compile selector %q: %w", expression, compiled.Error)
	}
	env := compiled.Environment
	ast, issues := env.Compile(expression)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("compile selector %q: %w", expression, err)
	}
	s := &Selector{}
	whole := ast.NativeRep()
	parts := conjuncts(whole.Expr())
	if len(parts) > maxConjuncts {
		parts = []celast.Expr{whole.Expr()}
	}
	for _, part := range parts {
		// The types and references of the whole cover those of its parts.
		sub := celast.NewCheckedAST(celast.NewAST(part, whole.SourceInfo()), whole.TypeMap(), whole.ReferenceMap())
		program, err := env.PlanProgram(sub, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(maxCost))
		if err != nil {
			return nil, fmt.Errorf("plan selector %q: %w", expression, err)
		}
		s.conjuncts = append(s.conjuncts, program)
	}
	return s, nil
}

func conjuncts(e celast.Expr) []celast.Expr {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []celast.Expr{e}
	}
	var out []celast.Expr
	for _, arg := range e.AsCall().Args() {
		out = append(out, conjuncts(arg)...)
	}
	return out
}

// Ask evaluates the selector. The reason is CEL's where the answer is Fails.
func (s *Selector) Ask(d Device) (answer Answer, reason string) {
	answer = Maybe
	for _, program := range s.conjuncts {
		value, _, err := program.Eval(d.variables)
		var cancelled interpreter.EvalCancelledError
		switch {
		case errors.As(err, &cancelled): // too long
		case err != nil:
			answer, reason = Fails, err.Error()
		case value == types.False:
			return No, "" // in CEL, false && error is false
		}
	}
	return answer, reason
}

// All asks selectors in the order in which the scheduler does, a class's before a
// request's: one that does not select the device ends it. failing is the index of the
// selector that fails, otherwise -1.
func All(selectors []*Selector, d Device) (answer Answer, failing int, reason string) {
	for i, s := range selectors {
		if answer, reason := s.Ask(d); answer != Maybe {
			if answer == No {
				i = -1
			}
			return answer, i, reason
		}
	}
	return Maybe, -1, ""
}
