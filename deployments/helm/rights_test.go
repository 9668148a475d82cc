package helm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The node plugin's rights, all of them. Whoever adds one says here why:
// it holds on every node's token.
func TestNodePluginsRights(t *testing.T) {
	role := only[*rbacv1.ClusterRole](t, render(t, "--set", "driverName=gpu.example.com"))
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"get"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/status"}, Verbs: []string{"update", "patch"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, ResourceNames: []string{"gpu.example.com"}, Verbs: []string{"associated-node:update", "associated-node:patch"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}, // for NICs on Ethernet
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// A policy that names an account which the plugin does not use protects nothing and
// looks fine (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1317).
func TestOneAccountEverywhere(t *testing.T) {
	for name, args := range combinations {
		t.Run(name, func(t *testing.T) {
			objects := render(t, args...)
			ds := nodePlugin(t, args...)
			account := ds.Spec.Template.Spec.ServiceAccountName
			if account == "" || account == "default" {
				t.Fatalf("the plugin runs as service account %q", account)
			}

			binding := only[*rbacv1.ClusterRoleBinding](t, objects)
			want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: ds.Namespace}}
			if diff := cmp.Diff(want, binding.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
			if role := only[*rbacv1.ClusterRole](t, objects); binding.RoleRef.Name != role.Name {
				t.Errorf("bound to role %s, there is %s", binding.RoleRef.Name, role.Name)
			}

			policy := only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
			user := `request.userInfo.username == "system:serviceaccount:` + ds.Namespace + ":" + account + `"`
			if got := policy.Spec.MatchConditions[0].Expression; len(policy.Spec.MatchConditions) != 1 || got != user {
				t.Errorf("the policy applies to %s, want %s", got, user)
			}
			bound := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects)
			if bound.Spec.PolicyName != policy.Name || bound.Spec.MatchResources != nil {
				t.Errorf("binding of policy %s (%+v), there is %s", bound.Spec.PolicyName, bound.Spec.MatchResources, policy.Name)
			}

			accounts := pick[*corev1.ServiceAccount](objects)
			if name == "account of others" {
				if len(accounts) != 0 {
					t.Errorf("made an account although told not to")
				}
			} else if len(accounts) != 1 || accounts[0].Name != account || accounts[0].Namespace != ds.Namespace {
				t.Errorf("accounts %+v, want %s", accounts, account)
			}
		})
	}
}

// The simulator needs nothing of the API.
func TestSimulatorHasNoToken(t *testing.T) {
	out, err := template(t, "--values", "kind.yaml", "--show-only", "templates/simulated.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "automountServiceAccountToken: false"); n != 2 {
		t.Errorf("%d of 2 simulators go without a token", n)
	}
}
