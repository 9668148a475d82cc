package node_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/pkg/slices"
)

// attribute is what the API server has of one of our devices; nil without it.
func (f *fixture) attribute(ctx context.Context, device string, name resourceapi.QualifiedName) (*resourceapi.DeviceAttribute, error) {
	all, err := f.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range all.Items {
		for _, d := range s.Spec.Devices {
			if a, ok := d.Attributes[name]; ok && d.Name == device {
				return &a, nil
			}
		}
	}
	return nil, nil
}

// awaitDomain waits until a GPU is in an NVLink domain, or in none.
func (f *fixture) awaitDomain(device string, joined bool) {
	f.t.Helper()
	f.await(fmt.Sprintf("%s is in an NVLink domain: %t", device, joined), func(ctx context.Context) error {
		a, err := f.attribute(ctx, device, slices.AttributeNVLinkDomain)
		if err == nil && (a != nil) != joined {
			err = fmt.Errorf("it has %v", a)
		}
		return err
	})
}

// specs are our ResourceSlices, by name.
func (f *fixture) specs() map[string]resourceapi.ResourceSliceSpec {
	f.t.Helper()
	all, err := f.kube.ResourceV1().ResourceSlices().List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]resourceapi.ResourceSliceSpec{}
	for _, s := range all.Items {
		out[s.Name] = s.Spec
	}
	return out
}

// TestNVLinkJoinsLate: the fabric manager comes to GPUs after the plugin does. Then one
// slice is another one, and the pool with all others stays. What a claim holds stays as it
// was published.
func TestNVLinkJoinsLate(t *testing.T) {
	f := newFixture(t, "dgx-h100")
	late, held := f.whole(7), f.whole(6)
	f.awaitDomain(late, true)
	f.hw.Do("fabric", "--gpu=7", "--state=in-progress")
	f.awaitDomain(late, false)
	before := f.specs()
	f.hw.Do("fabric", "--gpu=7")
	f.awaitDomain(late, true)
	after, changed := f.specs(), 0
	for name, spec := range before {
		if cmp.Diff(spec, after[name]) != "" {
			changed++
		}
	}
	if changed != 1 || len(after) != len(before) {
		t.Errorf("%d of %d slices have changed, and now there are %d; want one changed", changed, len(before), len(after))
	}
	c := f.claim("a", held)
	f.mustPrepare(c)
	f.hw.Do("fabric", "--gpu=6", "--state=not-started")
	f.hw.Do("fabric", "--gpu=7", "--state=failed")
	f.awaitDomain(late, false) // so the plugin has seen both
	f.awaitDomain(held, true)
	f.mustUnprepare(c)
	f.awaitDomain(held, false)
	f.mustBeClean()
}
