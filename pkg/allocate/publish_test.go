package allocate_test

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cleave-dra/cleave/pkg/allocate"
	"github.com/cleave-dra/cleave/pkg/catalog"
	cleaveslices "github.com/cleave-dra/cleave/pkg/slices"
)

// TestPublishedIsTheHelpers runs the real publishing helper and compares what it
// creates. Names differ only after the index, owners only exist in a cluster.
func TestPublishedIsTheHelpers(t *testing.T) {
	server, _, err := catalog.LoadServer("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	resources, err := cleaveslices.Build(server.Node(), cleaveslices.Options{NodeName: node.Name, Partitions: true})
	if err != nil {
		t.Fatal(err)
	}

	client := fake.NewClientset(node)
	created := 0 // the fake API server does not make up names
	client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		slice := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceSlice)
		created++
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, created)
		return false, nil, nil
	})
	controller, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: driver,
		KubeClient: client,
		Owner:      &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: "node-uid"},
		Resources:  resources.DeepCopy(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Stop()

	want := allocate.Published(driver, node.Name, resources)
	var got []resourceapi.ResourceSlice
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = list.Items
		return len(got) >= len(want), nil
	})
	if err != nil {
		t.Fatalf("%v: %d of %d slices were created", err, len(got), len(want))
	}
	slices.SortFunc(got, func(a, b resourceapi.ResourceSlice) int {
		return stdcmp.Or(strings.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name), strings.Compare(a.Name, b.Name))
	})
	for i := range want {
		wantIndex, _, _ := strings.Cut(want[i].Name, "-")
		if gotIndex, _, _ := strings.Cut(got[i].Name, "-"); gotIndex != wantIndex {
			t.Errorf("slice %d is named %s, want its index to be %s", i, got[i].Name, wantIndex)
		}
		if diff := cmp.Diff(want[i].Spec, got[i].Spec); diff != "" {
			t.Errorf("slice %d (-want +got):\n%s", i, diff)
		}
	}
}
