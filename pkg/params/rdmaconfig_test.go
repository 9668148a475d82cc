package params

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

const (
	theNIC   = "nic-0000-5e-00-0"
	thePair  = "gpu-0000-d8-00-0-nic-0000-d5-00-0"
	rdmaHead = `{"apiVersion":"cleave.dev/v1alpha1","kind":"RDMAConfig"`
)

func TestDecodeRDMAConfig(t *testing.T) {
	tests := map[string]struct {
		raw, errs  string
		issm, nccl bool
	}{
		"nothing":     {raw: rdmaHead + `}`},
		"both":        {raw: rdmaHead + `,"issm":true,"nccl":true}`, issm: true, nccl: true},
		"off":         {raw: rdmaHead + `,"issm":false,"nccl":true}`, nccl: true},
		"wrong case":  {raw: rdmaHead + `,"NCCL":true}`, errs: "p.NCCL: Forbidden: unknown field of RDMAConfig"},
		"not boolean": {raw: rdmaHead + `,"nccl":"yes"}`, errs: "p.nccl: Invalid value: want true or false, not string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj, errs := Decode([]byte(tc.raw), field.NewPath("p"))
			if tc.errs != "" {
				if got := errs.ToAggregate(); got == nil || got.Error() != tc.errs {
					t.Errorf("got %v, want %s", got, tc.errs)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if c := obj.(*v1alpha1.RDMAConfig); c.ISSM != tc.issm || c.NCCL != tc.nccl {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// TestForClaimRDMA: RDMAConfig is for NICs, GPUConfig for whole GPUs, and a pair
// gets both.
func TestForClaimRDMA(t *testing.T) {
	const x = "ExclusiveProcess"
	rdma := func(requests ...string) cfg { return opaque(claimed, driver, rdmaHead+`,"nccl":true}`, requests...) }
	all := []res{given("g", gpu), given("s", slice), given("n", theNIC), given("p", thePair)}
	tests := map[string]struct {
		results []res
		configs []cfg
		want    string // the result indices by kind
		refused string
	}{
		"for all requests":    {results: all, configs: []cfg{rdma(), mode(claimed, x)}, want: "gpu[0 3] rdma[2 3]"},
		"one request":         {results: all, configs: []cfg{rdma("p")}, want: "gpu[] rdma[3]"},
		"neither hides other": {results: all, configs: []cfg{mode(claimed, x, "p"), rdma("p")}, want: "gpu[3] rdma[3]"},
		"from a class":        {results: all, configs: []cfg{opaque(class, driver, rdmaHead+`}`, "g", "n")}, want: "gpu[] rdma[2]"},
		"names a GPU":         {results: all, configs: []cfg{rdma("g")}, refused: "RDMAConfig configures NICs, and this request was given none"},
		"names a NIC":         {results: all, configs: []cfg{mode(claimed, x, "n")}, refused: "GPUConfig configures whole GPUs, and this request was given none"},
		"changes nothing":     {results: []res{admin(given("n", theNIC))}, configs: []cfg{rdma("n")}, want: "gpu[] rdma[0]"},
		"WEBH-05 changes the GPU of a pair": {results: []res{admin(given("p", thePair))}, configs: []cfg{mode(claimed, x, "p")},
			refused: `GPUConfig covers request "p", which has admin access`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			configs, err := ForClaim(claim(tc.results, tc.configs...), driver)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got %v, want an error with %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var gpus, nics []int
			for i := range tc.results {
				if configs.GPU[i] != nil {
					gpus = append(gpus, i)
				}
				if configs.RDMA[i] != nil {
					nics = append(nics, i)
				}
			}
			if diff := cmp.Diff(tc.want, fmt.Sprintf("gpu%v rdma%v", gpus, nics)); diff != "" {
				t.Errorf("applies to (-want +got):\n%s", diff)
			}
		})
	}
}
