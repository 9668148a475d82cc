//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// maxIdleMiB is what the node plugin may have resident on a node with eight GPUs.
const maxIdleMiB = 60

// TestIdle covers PERF-02: while nothing changes, no slice is written; and the
// plugin is small.
func TestIdle(t *testing.T) {
	e := newEnv(t)
	before, err := e.Slices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 {
		t.Fatal("no slices")
	}
	if wrote := e.watchSlices(time.Minute); len(wrote) > 0 {
		t.Errorf("PERF-02: in an idle minute slices were written:\n%s", strings.Join(wrote, "\n"))
	}
	after, err := e.Slices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(versions(before), versions(after)); diff != "" {
		t.Errorf("PERF-02: resource versions (-before +after):\n%s", diff)
	}
	for _, server := range e.servers() {
		mib := e.resident(server)
		t.Logf("the idle node plugin on %s has %.1f MiB resident, of at most %d", server, mib, maxIdleMiB)
		if mib >= maxIdleMiB {
			t.Errorf("the idle node plugin on %s has %.1f MiB resident, want less than %d", server, mib, maxIdleMiB)
		}
	}
}

// watchSlices lists what is written to the driver's slices for a while.
func (e *env) watchSlices(during time.Duration) []string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), during)
	defer cancel()
	list, err := e.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Fatalf("list slices: %v", err)
	}
	w, err := e.Client.ResourceV1().ResourceSlices().Watch(ctx, metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + cluster.DriverName, ResourceVersion: list.ResourceVersion,
	})
	if err != nil {
		e.t.Fatalf("watch slices: %v", err)
	}
	defer w.Stop()
	var wrote []string
	for {
		select {
		case <-ctx.Done():
			return wrote
		case event, open := <-w.ResultChan():
			if !open && ctx.Err() == nil {
				e.t.Fatal("the watch of slices ended early")
			}
			if slice, ok := event.Object.(*resourceapi.ResourceSlice); ok && event.Type != watch.Bookmark {
				wrote = append(wrote, fmt.Sprintf("%s %s %s", event.Type, slice.Name, slice.ResourceVersion))
			}
		}
	}
}

func versions(list []resourceapi.ResourceSlice) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		out[s.Name] = s.ResourceVersion
	}
	return out
}

// resident is the memory of the node plugin's process in MiB.
func (e *env) resident(server string) float64 {
	e.t.Helper()
	out := e.on(server, `awk '$1 == "VmRSS:" {print $2}' /proc/$(pgrep -x cleave-node)/status`)
	kib, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil {
		e.t.Fatalf("read VmRSS of cleave-node on %s: %v", server, err)
	}
	return kib / 1024
}
