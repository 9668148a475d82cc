package simhw_test

import (
	"testing"

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
			drivertest.Run(t, simhw.NewDriver(engine))
		})
	}
}
