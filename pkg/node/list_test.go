package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

// refuseList does what the API server does with the feature DRAListTypeAttributes off: it
// drops the list, and refuses the attribute that has no value then.
func refuseList(slice *resourceapi.ResourceSlice) error {
	return apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice").GroupKind(), slice.Name, field.ErrorList{
		field.Invalid(field.NewPath("spec", "devices").Index(0).Child("attributes"), "", "exactly one value must be specified"),
	})
}

func takeList(*resourceapi.ResourceSlice) error { return nil }

// validate asks takeLists about a slice with a list.
func (f *fixture) validate(slice *resourceapi.ResourceSlice) error {
	for _, d := range slice.Spec.Devices {
		for _, a := range d.Attributes {
			if len(a.IntValues) > 0 {
				return f.takeLists(slice)
			}
		}
	}
	return nil
}

// awaitNodes waits until a device's NUMA nodes are published so.
func (f *fixture) awaitNodes(device string, want resourceapi.DeviceAttribute) {
	f.t.Helper()
	f.await(device+" has its NUMA nodes", func(ctx context.Context) error {
		got, err := f.attribute(ctx, device, deviceattribute.StandardDeviceAttributeNUMANode)
		if err == nil && (got == nil || cmp.Diff(want, *got) != "") {
			err = fmt.Errorf("it has %v, want %v", got, want)
		}
		return err
	})
}

// TestLists: where the API server takes attributes with several values a device has all
// NUMA nodes that are as good as its own, else its own alone, from the first slice on.
func TestLists(t *testing.T) {
	three := int64(3)
	tests := map[string]struct {
		take func(*resourceapi.ResourceSlice) error
		want resourceapi.DeviceAttribute
	}{
		"taken":   {takeList, resourceapi.DeviceAttribute{IntValues: []int64{3, 0, 1, 2}}},
		"refused": {refuseList, resourceapi.DeviceAttribute{IntValue: &three}},
		"dropped": {dropList, resourceapi.DeviceAttribute{IntValue: &three}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "dgx-a100", withNICs(false), func(f *fixture) { f.takeLists = tc.take })
			f.awaitNodes(f.whole(0), tc.want)
			f.awaitNodes(f.hw.Server.Node().NICs[0].DeviceName(), tc.want)
			if probes := f.probes(t.Context()); probes > 0 {
				t.Errorf("%d slices of dry runs are left", probes)
			}
		})
	}
}

// dropList is an API server that drops lists and does not mind.
func dropList(slice *resourceapi.ResourceSlice) error {
	for _, d := range slice.Spec.Devices {
		for name, a := range d.Attributes {
			if len(a.IntValues) > 0 {
				delete(d.Attributes, name)
			}
		}
	}
	return nil
}

// probes counts slices that dry runs have left.
func (f *fixture) probes(ctx context.Context) int {
	f.t.Helper()
	all, err := f.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	n := 0
	for _, s := range all.Items {
		if strings.HasSuffix(s.Spec.Pool.Name, "/probe") {
			n++
		}
	}
	return n
}

// TestListsUnknown: as long as the API server does not say whether it takes lists nothing
// is published; it is asked again.
func TestListsUnknown(t *testing.T) {
	var asked, published atomic.Int32
	f := newFixture(t, "dgx-a100", func(f *fixture) {
		f.takeLists = func(slice *resourceapi.ResourceSlice) error {
			switch {
			case !strings.HasSuffix(slice.Spec.Pool.Name, "/probe"):
				published.Store(asked.Load())
			case asked.Add(1) < 3:
				return apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return nil
		}
	})
	f.awaitNodes(f.whole(0), resourceapi.DeviceAttribute{IntValues: []int64{3, 0, 1, 2}})
	if asked.Load() != 3 || published.Load() != 3 {
		t.Errorf("asked %d times, published after %d, want 3", asked.Load(), published.Load())
	}
}

// TestListsSwitchedOff: an API server that took lists and refuses them from now on gets
// slices without.
func TestListsSwitchedOff(t *testing.T) {
	var off atomic.Bool
	f := newFixture(t, "dgx-a100", func(f *fixture) {
		f.takeLists = func(slice *resourceapi.ResourceSlice) error {
			if off.Load() {
				return refuseList(slice)
			}
			return nil
		}
	})
	f.awaitNodes(f.whole(0), resourceapi.DeviceAttribute{IntValues: []int64{3, 0, 1, 2}})
	off.Store(true)
	all, err := f.kube.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all.Items {
		if err := f.kube.ResourceV1().ResourceSlices().Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	three := int64(3)
	f.awaitNodes(f.whole(0), resourceapi.DeviceAttribute{IntValue: &three})
	f.await("the plugin is ready again", f.plugin.Ready)
}
