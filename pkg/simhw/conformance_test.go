package simhw_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/host"
	"github.com/cleave-dra/cleave/pkg/simhw"
	"github.com/cleave-dra/cleave/test/testkit/drivertest"
)

var _ host.Driver = (*simhw.Driver)(nil)

// The short way to the engine keeps the same promises as the long one through the
// library.
func TestDriverKeepsItsPromises(t *testing.T) {
	for _, name := range catalog.Servers() {
		t.Run(name, func(t *testing.T) {
			server, _, err := catalog.LoadServer(name)
			if err != nil {
				t.Fatal(err)
			}
			engine, err := simhw.NewEngine(server, simhw.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range server.GPUs {
				if m := g.Model.MIG; m == nil || !m.ModeNeedsReset {
					continue
				}
				if activation, ret := engine.SetMIGMode(i, true); ret != nvml.SUCCESS || activation != nvml.ERROR_RESET_REQUIRED {
					t.Fatalf("set MIG mode of GPU %d: %v, activation %v", i, ret, activation)
				}
				if ret := engine.Reset(i); ret != nvml.SUCCESS {
					t.Fatalf("reset GPU %d: %v", i, ret)
				}
			}
			drivertest.Run(t, simhw.NewDriver(engine))
		})
	}
}
