package simhw

import (
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/catalog"
)

func TestXidsChangeHealth(t *testing.T) {
	one := ECCErrors{DRAMUncorrected: 1}
	const reset = nvml.GPU_RECOVERY_ACTION_GPU_RESET
	tests := map[uint64]Health{
		13:  {},
		48:  {Volatile: one, Aggregate: one},
		63:  {Rows: RemappedRows{Uncorrectable: 1, Pending: true}},
		64:  {Rows: RemappedRows{Failed: true}, Recovery: reset},
		74:  {NVLink: NVLinkErrors{Recovery: 1}, Recovery: reset},
		94:  {Volatile: one, Aggregate: one},
		95:  {Volatile: one, Aggregate: one, Recovery: reset},
		119: {Recovery: reset},
	}
	for xid, want := range tests {
		e := testEngine(t, "mixed")
		inject(t, e, 0, xid, NoInstance)
		s := e.Snapshot()
		if diff := cmp.Diff(want, s.GPUs[0].Health); diff != "" {
			t.Errorf("Xid %d (-want +got):\n%s", xid, diff)
		}
		if diff := cmp.Diff(Health{}, s.GPUs[1].Health); diff != "" {
			t.Errorf("Xid %d, the other GPU (-want +got):\n%s", xid, diff)
		}
	}
	if err := testEngine(t, "mixed").InjectXid(2, 13, NoInstance, NoInstance); err == nil {
		t.Error("an Xid of a GPU that is not there was taken")
	}
}

func TestHealthEvents(t *testing.T) {
	tests := map[string]struct {
		change func(*Health)
		want   []Event
	}{
		"nothing":       {func(*Health) {}, nil},
		"corrected":     {func(h *Health) { h.Volatile.SRAMCorrected++ }, []Event{{Type: nvml.EventTypeSingleBitEccError}}},
		"uncorrected":   {func(h *Health) { h.Volatile.SRAMParity++ }, []Event{{Type: nvml.EventTypeDoubleBitEccError}}},
		"remap pending": {func(h *Health) { h.Rows.Pending = true }, []Event{{Type: nvml.EventTypeDramRetirementEvent}}},
		"remap failed":  {func(h *Health) { h.Rows.Failed = true }, []Event{{Type: nvml.EventTypeDramRetirementFailure}}},
		"action":        {func(h *Health) { h.Recovery = 4 }, []Event{{Type: nvml.EventTypeGpuRecoveryAction, Data: 4}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var after Health
			tc.change(&after)
			if diff := cmp.Diff(tc.want, healthEvents(Health{}, after)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// Health belongs to the hardware: it outlives the daemon, and a reboot leaves
// what a reset leaves.
func TestHealthIsKept(t *testing.T) {
	server, _, err := catalog.LoadServer("mixed")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{StateFile: filepath.Join(t.TempDir(), "state.json")}
	e, err := NewEngine(server, o)
	if err != nil {
		t.Fatal(err)
	}
	inject(t, e, 0, 95, NoInstance)
	inject(t, e, 0, 63, NoInstance)
	again, err := NewEngine(server, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.Snapshot(), again.Snapshot()); diff != "" {
		t.Errorf("state after a restart (-want +got):\n%s", diff)
	}
	if err := again.Reboot(); err != nil {
		t.Fatal(err)
	}
	want := Health{Aggregate: ECCErrors{DRAMUncorrected: 1}, Rows: RemappedRows{Uncorrectable: 1}}
	if diff := cmp.Diff(want, again.Snapshot().GPUs[0].Health); diff != "" {
		t.Errorf("health after a reboot (-want +got):\n%s", diff)
	}
}
