//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// These tests act with real tokens of the installed node plugin. What they try is a
// dry run, which passes authorization and admission like the real thing and leaves
// the cluster as it is.
var dryRun = []string{metav1.DryRunAll}

// intruder is whoever got hold of a node plugin's token.
type intruder struct {
	admin    kubernetes.Interface
	config   *rest.Config
	plugin   *appsv1.DaemonSet
	node     string // of the token
	other    string // another node that the plugin serves
	driver   string
	withPod  kubernetes.Interface // token bound to the pod on node
	unbound  kubernetes.Interface // token of the account alone
	ownSlice *resourceapi.ResourceSlice
	foreign  *resourceapi.ResourceSlice // of the other node
}

// newIntruder takes the account from the installed DaemonSet, never from a list of
// names, so that a rename cannot make these tests pass for nothing.
func newIntruder(t *testing.T) *intruder {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	in := &intruder{config: config, admin: kubernetes.NewForConfigOrDie(config)}
	sets, err := in.admin.AppsV1().DaemonSets("").List(t.Context(), metav1.ListOptions{
		LabelSelector: pluginSelector,
	})
	if err != nil || len(sets.Items) == 0 {
		t.Fatalf("want the DaemonSets of the node plugin, have %d (%v)", len(sets.Items), err)
	}
	in.plugin = &sets.Items[0]
	for _, arg := range in.plugin.Spec.Template.Spec.Containers[0].Args {
		if name, ok := strings.CutPrefix(arg, "--driver-name="); ok {
			in.driver = name
		}
	}
	pods, err := in.admin.CoreV1().Pods(in.plugin.Namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: pluginSelector, FieldSelector: "status.phase=Running",
	})
	if err != nil || len(pods.Items) < 2 {
		t.Fatalf("want the plugin on two nodes, have %d pods (%v)", len(pods.Items), err)
	}
	in.node, in.other = pods.Items[0].Spec.NodeName, pods.Items[1].Spec.NodeName
	in.withPod, in.unbound = in.client(t, &pods.Items[0]), in.client(t, nil)
	in.ownSlice, in.foreign = in.sliceOf(t, in.node), in.sliceOf(t, in.other)
	return in
}

// client acts with a token of the plugin's account, as a pod's volume has it.
func (in *intruder) client(t *testing.T, pod *corev1.Pod) kubernetes.Interface {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	account := in.plugin.Spec.Template.Spec.ServiceAccountName
	token, err := in.admin.CoreV1().ServiceAccounts(in.plugin.Namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("get a token of %s/%s: %v", in.plugin.Namespace, account, err)
	}
	config := rest.AnonymousClientConfig(in.config)
	config.BearerToken = token.Status.Token
	return kubernetes.NewForConfigOrDie(config)
}

func (in *intruder) sliceOf(t *testing.T, node string) *resourceapi.ResourceSlice {
	t.Helper()
	slices, err := in.admin.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + node + ",spec.driver=" + in.driver,
	})
	if err != nil || len(slices.Items) == 0 {
		t.Fatalf("node %s has no slices of %s (%v)", node, in.driver, err)
	}
	return &slices.Items[0]
}

// newSlice is what an intruder would make up: an empty slice of a pool of its own.
func newSlice(driver, node string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "intruder-"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "intruder", Generation: 1, ResourceSliceCount: 1}},
	}
	if node == "" {
		everywhere := true
		slice.Spec.AllNodes = &everywhere
	} else {
		slice.Spec.NodeName = &node
	}
	return slice
}

// verdict checks what became of a request; an empty want means that it is allowed.
func verdict(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("denied: %v", err)
	case want != "" && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		t.Errorf("want it denied, got: %v", err)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("denied, but not with %q: %v", want, err)
	}
}

func TestPluginWritesOnlyItsOwnNodesSlices(t *testing.T) {
	in := newIntruder(t)
	clusterWide, err := in.admin.ResourceV1().ResourceSlices().Create(t.Context(), newSlice("policy-test.example.com", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := in.admin.ResourceV1().ResourceSlices().Delete(ctx, clusterWide.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	denied := "may not write a ResourceSlice"
	type request func(ctx context.Context, client kubernetes.Interface) error
	create := func(slice *resourceapi.ResourceSlice) request {
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	update := func(slice *resourceapi.ResourceSlice) request {
		return func(ctx context.Context, client kubernetes.Interface) error {
			slice = slice.DeepCopy()
			slice.ResourceVersion = "" // unconditional: the plugin writes meanwhile
			slice.Labels = map[string]string{"intruder": "yes"}
			_, err := client.ResourceV1().ResourceSlices().Update(ctx, slice, metav1.UpdateOptions{DryRun: dryRun})
			return err
		}
	}
	remove := func(slice *resourceapi.ResourceSlice) request {
		return func(ctx context.Context, client kubernetes.Interface) error {
			return client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{DryRun: dryRun})
		}
	}
	tests := map[string]struct {
		request request
		want    string
	}{
		"create, own node":         {create(newSlice(in.driver, in.node)), ""},
		"create, other node":       {create(newSlice(in.driver, in.other)), denied + " of node " + in.other},
		"create, no node":          {create(newSlice(in.driver, "")), denied + " without nodeName"},
		"create, another's driver": {create(newSlice("policy-test.example.com", in.node)), denied + " of driver policy-test.example.com"},
		"update, own node":         {update(in.ownSlice), ""},
		"update, other node":       {update(in.foreign), denied + " of node " + in.other},
		"update, no node":          {update(clusterWide), denied + " without nodeName"},
		"delete, own node":         {remove(in.ownSlice), ""},
		"delete, other node":       {remove(in.foreign), denied + " of node " + in.other},
		"delete, no node":          {remove(clusterWide), denied + " without nodeName"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			verdict(t, tc.request(t.Context(), in.withPod), tc.want)
			// A token that names no node is good for nothing.
			verdict(t, tc.request(t.Context(), in.unbound), "the token names no node")
		})
	}
}

// allocated is a claim as the scheduler would leave it, with devices of two drivers.
func (in *intruder) allocated(t *testing.T, node string) *resourceapi.ResourceClaim {
	t.Helper()
	claims := in.admin.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	claim, err := claims.Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "policy-test-"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "policy-test.example.com"},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := claims.Delete(context.WithoutCancel(t.Context()), claim.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	result := func(driver string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: "policy-test", Device: "d"}
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			result(in.driver), result("policy-test.example.com"),
		}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
	if claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestPluginWritesOnlyItsOwnDevicesStatus(t *testing.T) {
	in := newIntruder(t)
	tests := map[string]struct {
		node, driver string
		want         string
	}{
		"own driver, own node":       {node: in.node, driver: in.driver},
		"own driver, other node":     {node: in.other, driver: in.driver, want: "resourceclaims/driver"},
		"another's driver, own node": {node: in.node, driver: "policy-test.example.com", want: "resourceclaims/driver"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			claim := in.allocated(t, tc.node)
			claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: tc.driver, Pool: "policy-test", Device: "d"}}
			_, err := in.withPod.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{DryRun: dryRun})
			verdict(t, err, tc.want)
		})
	}
}

func TestPluginsTokenOpensNothingElse(t *testing.T) {
	in := newIntruder(t)
	may := func(verb, group, resource string) bool {
		review, err := in.withPod.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Namespace: metav1.NamespaceDefault,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	if !may("get", "resource.k8s.io", "resourceclaims") {
		t.Error("the plugin may not read claims")
	}
	for _, right := range [][3]string{
		{"list", "resource.k8s.io", "resourceclaims"},
		{"update", "resource.k8s.io", "resourceclaims"},
		{"create", "resource.k8s.io", "resourceclaims"},
		{"deletecollection", "resource.k8s.io", "resourceslices"},
		{"create", "resource.k8s.io", "deviceclasses"},
		{"get", "", "secrets"},
		{"list", "", "pods"},
		{"patch", "", "pods"},
		{"update", "", "nodes"},
		{"patch", "", "nodes"},
		{"create", "apps", "daemonsets"},
		{"create", "", "serviceaccounts/token"},
	} {
		if may(right[0], right[1], right[2]) {
			t.Errorf("the plugin's token may %s %s.%s", right[0], right[2], right[1])
		}
	}
}
