package clients_test

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/cleave-dra/cleave/test/testkit/simnode"
)

// What is said to the simulator about a GPU's health is what NVML tells of it.
func TestHealth(t *testing.T) {
	n := simnode.Start(t, "mixed")
	d, ret := open(t, n).DeviceGetHandleByIndex(0)
	check(t, "DeviceGetHandleByIndex", ret)
	for _, args := range [][]string{
		{"ecc", "--gpu=0", "--dram-uncorrected=2", "--sram-corrected=3"},
		{"ecc", "--gpu=0", "--sram-parity=1", "--aggregate-only"},
		{"remap", "--gpu=0", "--correctable=4", "--uncorrectable=5", "--pending"},
		{"recovery", "--gpu=0", "--action=2"},
	} {
		if _, err := n.Ctl(args...); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]uint64{}
	count := func(name string, v uint64, ret nvml.Return) {
		check(t, name, ret)
		counts[name] = v
	}
	v, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	count("volatile uncorrected", v, ret)
	v, ret = d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
	count("aggregate uncorrected", v, ret)
	v, ret = d.GetMemoryErrorCounter(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM)
	count("corrected in SRAM", v, ret)
	sram, ret := d.GetSramEccErrorStatus()
	count("parity in SRAM", sram.AggregateUncParity, ret)
	rows, ret := d.GetRemappedRows_v2()
	count("rows not yet active", uint64(rows.UncInactiveRemaps), ret)
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	check(t, "GetFieldValues", d.GetFieldValues(fields))
	count("recovery action", binary.NativeEndian.Uint64(fields[0].Value[:]), nvml.Return(fields[0].NvmlReturn))
	want := map[string]uint64{
		"volatile uncorrected": 2, "aggregate uncorrected": 3, "corrected in SRAM": 3, "parity in SRAM": 1,
		"rows not yet active": 1, "recovery action": 2,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("NVML tells (-want +got):\n%s", diff)
	}
	correctable, uncorrectable, pending, failed, ret := d.GetRemappedRows()
	check(t, "GetRemappedRows", ret)
	if correctable != 4 || uncorrectable != 5 || !pending || failed {
		t.Errorf("remapped rows %d, %d, pending %t, failed %t", correctable, uncorrectable, pending, failed)
	}
}
