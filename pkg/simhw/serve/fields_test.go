package serve

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

func capLine(minor int) string { return fmt.Sprintf("cap nvidia-cap%d 384 %d\n", minor, minor) }

func TestFieldValues(t *testing.T) {
	e := engineOf(t, "dgx-h100")
	err := e.SetHealth(0, simhw.Health{
		Volatile: simhw.ECCErrors{DRAMCorrected: 3, SRAMParity: 2}, Rows: simhw.RemappedRows{Uncorrectable: 5, Pending: true},
		Recovery: nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET, NVLink: simhw.NVLinkErrors{Replay: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		id, scope uint32
		ret       nvml.Return
		want      uint64
	}{
		{"corrected", nvml.FI_DEV_ECC_SBE_VOL_TOTAL, 0, nvml.SUCCESS, 3},
		{"uncorrected", nvml.FI_DEV_ECC_DBE_VOL_TOTAL, 0, nvml.SUCCESS, 2},
		{"rows", nvml.FI_DEV_REMAPPED_UNC, 0, nvml.SUCCESS, 5},
		{"pending", nvml.FI_DEV_REMAPPED_PENDING, 0, nvml.SUCCESS, 1},
		{"recovery action", nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 0, nvml.SUCCESS, 4},
		{"power", nvml.FI_DEV_POWER_INSTANT, 0, nvml.SUCCESS, 70_000},
		{"links", nvml.FI_DEV_NVLINK_LINK_COUNT, 0, nvml.SUCCESS, 18},
		{"speed", nvml.FI_DEV_NVLINK_GET_SPEED, 17, nvml.SUCCESS, 26562},
		{"replays on the first link", nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY, 0, nvml.SUCCESS, 6},
		{"replays on another", nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY, 1, nvml.SUCCESS, 0},
		{"no such link", nvml.FI_DEV_NVLINK_GET_STATE, 18, nvml.ERROR_NOT_SUPPORTED, 0},
		{"not simulated", nvml.FI_DEV_C2C_LINK_COUNT, 0, nvml.ERROR_NOT_SUPPORTED, 0},
		{"no field", 0, 0, nvml.ERROR_INVALID_ARGUMENT, 0},
	}
	var in []byte
	for _, tc := range tests {
		in = append(in, bytesOf(&nvml.FieldValue{FieldId: tc.id, ScopeId: tc.scope})...)
	}
	ret, out := invoke(t, e, everyNode, "nvmlDeviceGetFieldValues", gpuArgument(0), u32(uint32(len(tests))), filled(in))
	if ret != nvml.SUCCESS {
		t.Fatalf("field values: %d", ret)
	}
	for i, tc := range tests {
		var got nvml.FieldValue
		copy(bytesOf(&got), out[2][i*len(bytesOf(&got)):])
		if value := binary.NativeEndian.Uint64(got.Value[:]); nvml.Return(got.NvmlReturn) != tc.ret || value != tc.want || got.FieldId != tc.id {
			t.Errorf("%s: field %d: %d, %d, want %d, %d", tc.name, got.FieldId, got.NvmlReturn, value, tc.ret, tc.want)
		}
	}
	for name, n := range map[string]uint32{"none": 0, "negative": 0xffffffff, "more than there is room": 99} {
		if ret, _ := invoke(t, e, everyNode, "nvmlDeviceGetFieldValues", gpuArgument(0), u32(n), filled(in)); ret != nvml.ERROR_INVALID_ARGUMENT {
			t.Errorf("%s: %d", name, ret)
		}
	}
}

func TestHealthCalls(t *testing.T) {
	e := engineOf(t, "mixed")
	if err := e.InjectXid(0, 95, simhw.NoInstance, simhw.NoInstance); err != nil {
		t.Fatal(err)
	}
	if err := e.InjectXid(0, 63, simhw.NoInstance, simhw.NoInstance); err != nil {
		t.Fatal(err)
	}
	_, out := invoke(t, e, everyNode, "nvmlDeviceGetRemappedRows", gpuArgument(0), pointer(4), pointer(4), pointer(4), pointer(4))
	got := []uint64{written(out[1]), written(out[2]), written(out[3]), written(out[4])}
	if diff := cmp.Diff([]uint64{0, 1, 1, 0}, got); diff != "" {
		t.Errorf("remapped rows (-want +got):\n%s", diff)
	}
	_, out = invoke(t, e, everyNode, "nvmlDeviceGetRowRemapperHistogram", gpuArgument(0), pointer(20))
	var h nvml.RowRemapperHistogramValues
	copy(bytesOf(&h), out[1])
	if diff := cmp.Diff(nvml.RowRemapperHistogramValues{Max: banks - 1, High: 1}, h); diff != "" {
		t.Errorf("histogram (-want +got):\n%s", diff)
	}
	const uncorrected, volatile, aggregate, dram = 1, 0, 1, 2
	if _, n := askNumber(t, e, "nvmlDeviceGetMemoryErrorCounter", gpuArgument(0), u32(uncorrected), u32(volatile), u32(dram)); n != 1 {
		t.Errorf("%d uncorrected errors in memory", n)
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlDeviceClearEccErrorCounts", gpuArgument(0), u32(volatile)); ret != nvml.SUCCESS {
		t.Errorf("clear: %d", ret)
	}
	if _, n := askNumber(t, e, "nvmlDeviceGetTotalEccErrors", gpuArgument(0), u32(uncorrected), u32(volatile)); n != 0 {
		t.Errorf("%d volatile errors after clearing them", n)
	}
	if _, n := askNumber(t, e, "nvmlDeviceGetTotalEccErrors", gpuArgument(0), u32(uncorrected), u32(aggregate)); n != 1 {
		t.Errorf("%d aggregate errors", n)
	}
	if ret, _ := invoke(t, e, everyNode, "nvmlDeviceGetRetiredPages", gpuArgument(0), u32(0), count(0), argument{kind: kindNull}); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("retired pages of a GPU that remaps rows: %d", ret)
	}
}
