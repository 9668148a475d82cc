package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cleave-dra/cleave/pkg/host"
)

// talking is a kernel that says something of each of some subsystems.
type talking struct {
	kernel
	says []string
	err  error
}

func (k *talking) Uevents(_ context.Context, event func(string)) error {
	for _, s := range k.says {
		event(s)
	}
	return k.err
}

func TestWatch(t *testing.T) {
	refused := errors.New("not permitted")
	tests := map[string]struct {
		talking
		want int
	}{
		"what GPUs and NICs are made of": {talking: talking{says: []string{"pci", "net", "infiniband", "infiniband_verbs", "infiniband_mad"}}, want: 5},
		"what has nothing to do with it": {talking: talking{says: []string{"mem", "usb", "pci_express", "block"}}},
		"messages were lost":             {talking: talking{says: []string{""}}, want: 1},
		"nothing can be heard":           {talking: talking{err: refused}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := 0
			err := host.New(nil, &tc.talking, "").Watch(t.Context(), func() { got++ })
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("changed %d times (%v), want %d (%v)", got, err, tc.want, tc.err)
			}
		})
	}
}
