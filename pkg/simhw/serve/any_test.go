package serve

import (
	"testing"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

// Whatever a client sends for the parameters of a call, the daemon, which all
// clients share, survives it.
func TestAnyArguments(t *testing.T) {
	gpu := gpuArgument(0)
	other := map[string]argument{
		"nulls":         {kind: kindNull},
		"handles":       gpu,
		"zeros":         filled(make([]byte, 1<<16)),
		"ones":          filled(ones(1 << 16)),
		"no room":       {kind: kindPointer},
		"short values":  {kind: kindValue, bytes: []byte{1}},
		"short structs": filled([]byte{1, 0}),
	}
	for _, name := range catalog.Servers() {
		if _, _, err := catalog.LoadServer(name); err != nil {
			continue // it has a model that cannot be simulated
		}
		for kind, a := range other {
			t.Run(name+"/"+kind, func(t *testing.T) {
				e := engineOf(t, name)
				for function, f := range functions {
					arguments := []argument{gpu}
					for range f.parameters - 1 {
						arguments = append(arguments, a)
					}
					_, _ = invoke(t, e, everyNode, function, arguments[:f.parameters]...)
					arguments[0] = a
					_, _ = invoke(t, e, everyNode, function, arguments[:f.parameters]...)
				}
			})
		}
	}
}

func ones(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xff
	}
	return b
}
