package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/allocate"
	publish "github.com/cleave-dra/cleave/pkg/slices"
)

// BenchmarkPairTime is what one node costs the scheduler that looks for so many pairs,
// with all MIG slices published too. In "short" one NIC too few is free, which the
// search has to find out; the GPUs are all free, which makes that longest.
func BenchmarkPairTime(b *testing.B) {
	for name, perSwitch := range map[string]int{"8x1": 1, "4x2": 2} {
		hw := trainingNode(b, perSwitch)
		for _, nodes := range []int{1, 16, 128} {
			for _, members := range []int{1, 4, 8} {
				for _, fits := range []bool{true, false} {
					label := fmt.Sprintf("%s/%d-nodes/%d-members/%s", name, nodes, members, map[bool]string{true: "fits", false: "short"}[fits])
					b.Run(label, func(b *testing.B) {
						state := nicState(b, hw, nodes, publish.Options{Partitions: true, Pairs: true})
						for i := range nodes {
							if !fits {
								holdNICs(state, nodeName(i), publish.PoolName(nodeName(i)), hw.NICs[members-1:8])
							}
						}
						measure(b, state, nodes, claimOf(request("pairs", "gpu-nic", members)), fits)
					})
				}
			}
		}
	}
}

// measure asks one node after the other. Its figures are per node, in milliseconds of
// the thread's processor time, so that other work on the machine hardly counts.
func measure(b *testing.B, state *allocate.State, nodes int, claim *resourceapi.ResourceClaim, fits bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []time.Duration
	for b.Loop() {
		worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(len(all) % nodes)}}
		began := processorTime(b)
		_, err := state.Allocate(b.Context(), worker, claim)
		all = append(all, processorTime(b)-began)
		if fits && err != nil || !fits && !errors.Is(err, allocate.ErrNoFit) {
			b.Fatalf("fits is %v: %v", fits, err)
		}
	}
	slices.Sort(all)
	at := func(percent int) float64 { return float64(all[(len(all)-1)*percent/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "ms-p50")
	b.ReportMetric(at(99), "ms-p99")
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
