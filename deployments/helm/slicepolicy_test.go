package helm

import (
	"fmt"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expression is one of the policy's for the API server's compiler.
type expression struct {
	name, text string
	result     *celgo.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.result} }

// write is a request to the API server.
type write struct {
	operation admission.Operation
	user      user.Info
	slice     *resourceapi.ResourceSlice
}

// attributes are what admission sees of the request.
func (w write) attributes() *admission.VersionedAttributes {
	kind := resourceapi.SchemeGroupVersion.WithKind("ResourceSlice")
	resource := resourceapi.SchemeGroupVersion.WithResource("resourceslices")
	var object, old runtime.Object = w.slice, w.slice
	switch w.operation {
	case admission.Create:
		old = nil
	case admission.Delete:
		object = nil
	}
	record := admission.NewAttributesRecord(object, old, kind, "", w.slice.Name, resource, "", w.operation, nil, false, w.user)
	return &admission.VersionedAttributes{
		Attributes:         record,
		VersionedKind:      kind,
		VersionedObject:    admission.NewLazyObject(object),
		VersionedOldObject: admission.NewLazyObject(old),
	}
}

// deny evaluates a policy as the API server does, and says why it denies; "" means
// that it allows the request or does not apply to it.
func deny(t *testing.T, policy *admissionregv1.ValidatingAdmissionPolicy, request write) string {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, expression{v.Name, v.Expression, celgo.AnyType})
	}
	compiler.CompileAndStoreVariables(variables, cel.OptionalVariableDeclarations{}, environment.NewExpressions)
	attributes := request.attributes()
	evaluate := func(text string, result *celgo.Type) any {
		condition := compiler.CompileCondition([]cel.ExpressionAccessor{expression{"", text, result}}, cel.OptionalVariableDeclarations{}, environment.NewExpressions)
		if errs := condition.CompilationErrors(); len(errs) > 0 {
			t.Fatalf("compile %s: %v", text, errs)
		}
		asked := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.GetKind()))
		results, _, err := condition.ForInput(t.Context(), attributes, asked, cel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil || results[0].Error != nil {
			t.Fatalf("evaluate %s: %v %v", text, err, results[0].Error)
		}
		return results[0].EvalResult.Value()
	}
	for _, condition := range policy.Spec.MatchConditions {
		if evaluate(condition.Expression, celgo.BoolType) != true {
			return ""
		}
	}
	for _, validation := range policy.Spec.Validations {
		if evaluate(validation.Expression, celgo.BoolType) == true {
			continue
		}
		if validation.MessageExpression != "" {
			return fmt.Sprint(evaluate(validation.MessageExpression, celgo.StringType))
		}
		return validation.Message
	}
	return ""
}

// The end-to-end tests try the same with real tokens; this needs no cluster.
func TestPluginWritesOnlyItsOwnNodesSlices(t *testing.T) {
	slice := func(driver, node string) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: driver}}
		if node != "" {
			s.Spec.NodeName = &node
		}
		return s
	}
	plugin := func(account, node string) user.Info {
		info := &user.DefaultInfo{Name: "system:serviceaccount:" + namespace + ":" + account}
		if node != "" {
			info.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return info
	}
	tests := map[string]struct {
		args  []string
		user  user.Info
		slice *resourceapi.ResourceSlice
		want  string
	}{
		"own node":       {user: plugin("gpus-cleave-node", "a"), slice: slice("cleave.dev", "a")},
		"other node":     {user: plugin("gpus-cleave-node", "a"), slice: slice("cleave.dev", "b"), want: "the plugin on node a may not write a ResourceSlice of node b"},
		"no node":        {user: plugin("gpus-cleave-node", "a"), slice: slice("cleave.dev", ""), want: "the plugin on node a may not write a ResourceSlice without nodeName"},
		"other driver":   {user: plugin("gpus-cleave-node", "a"), slice: slice("gpu.nvidia.com", "a"), want: "the plugin of driver cleave.dev may not write a ResourceSlice of driver gpu.nvidia.com"},
		"unbound token":  {user: plugin("gpus-cleave-node", ""), slice: slice("cleave.dev", "a"), want: "the token names no node"},
		"somebody else":  {user: plugin("default", ""), slice: slice("cleave.dev", "b")},
		"renamed":        {args: []string{"--set", "serviceAccount.name=robot"}, user: plugin("robot", "a"), slice: slice("cleave.dev", "b"), want: "of node b"},
		"driver renamed": {args: []string{"--set", "driverName=gpu.example.com"}, user: plugin("gpus-cleave-node", "a"), slice: slice("gpu.example.com", "a")},
	}
	for name, tc := range tests {
		policy := only[*admissionregv1.ValidatingAdmissionPolicy](t, render(t, tc.args...))
		for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
			t.Run(fmt.Sprintf("%s %s", operation, name), func(t *testing.T) {
				got := deny(t, policy, write{operation, tc.user, tc.slice})
				if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Errorf("denied with %q, want %q", got, tc.want)
				}
			})
		}
	}
}
