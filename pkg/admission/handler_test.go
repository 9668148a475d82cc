package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/cleave-dra/cleave/pkg/admission"
)

// reader has one class, and cannot read another. Writing is not in its interface.
type reader struct{ client.Reader }

func (reader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch key.Name {
	case "gpu.cleave.dev":
		object.(*resourceapi.DeviceClass).Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.driver == "cleave.dev" && device.attributes["cleave.dev"].type == "gpu"`,
		}}}
		return nil
	case "slow.cleave.dev":
		return errors.New("timed out")
	default:
		return apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), key.Name)
	}
}

// ask sends an AdmissionReview over HTTP, as the API server does, and returns the
// answer.
func ask(t *testing.T, body string) *admissionv1.AdmissionReview {
	t.Helper()
	reviewer, err := admission.NewReviewer("cleave.dev")
	if err != nil {
		t.Fatal(err)
	}
	handler, err := webhook.StandaloneWebhook(&webhook.Webhook{Handler: admission.NewHandler(reviewer, reader{})}, webhook.StandaloneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, admission.Path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		t.Fatalf("%v\n%s", err, recorder.Body)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Response == nil || review.Response.UID != "0df28fbd-5f5f-11e8-bc74-36e6bb280816" {
		t.Fatalf("no answer to the review: %s", recorder.Body)
	}
	if len(review.Response.Patch) > 0 {
		t.Errorf("a validating webhook answers with a patch: %s", review.Response.Patch)
	}
	return &review
}

// review is what kube-apiserver 1.37 sends.
func review(kind, resource, operation, object, old string, dryRun bool) string {
	return fmt.Sprintf(`{
  "kind": "AdmissionReview",
  "apiVersion": "admission.k8s.io/v1",
  "request": {
    "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
    "kind": {"group": "resource.k8s.io", "version": "v1", "kind": %[1]q},
    "resource": {"group": "resource.k8s.io", "version": "v1", "resource": %[2]q},
    "requestKind": {"group": "resource.k8s.io", "version": "v1beta1", "kind": %[1]q},
    "requestResource": {"group": "resource.k8s.io", "version": "v1beta1", "resource": %[2]q},
    "name": "training",
    "namespace": "team",
    "operation": %[3]q,
    "userInfo": {"username": "system:serviceaccount:kube-system:resource-claim-controller", "groups": ["system:authenticated"]},
    "object": %[4]s,
    "oldObject": %[5]s,
    "dryRun": %[6]v,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
  }
}`, kind, resource, operation, object, old, dryRun)
}

const (
	good = `{"apiVersion": "cleave.dev/v1alpha1", "kind": "GPUConfig", "computeMode": "Default"}`
	bad  = `{"apiVersion": "cleave.dev/v1alpha1", "kind": "GPUConfig", "computeMod": 1, "y": 2}`
)

func spec(class, parameters string) string {
	return fmt.Sprintf(`{"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": %q, "allocationMode": "ExactCount", "count": 1}}],
		"config": [{"requests": ["gpu"], "opaque": {"driver": "cleave.dev", "parameters": %s}}]}}`, class, parameters)
}

func object(kind, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1", "kind": %q, "metadata": {"name": "training", "namespace": "team", "uid": "1"}, "spec": %s}`, kind, spec)
}

func claim(class, parameters string) string { return object("ResourceClaim", spec(class, parameters)) }

func template(class, parameters string) string {
	return object("ResourceClaimTemplate", `{"metadata": {"labels": {"a": "b"}}, "spec": `+spec(class, parameters)+`}`)
}

func class(parameters, label string) string {
	return object("DeviceClass", `{"selectors": [{"cel": {"expression": "device.driver == \"cleave.dev\" && device.attributes[\"cleave.dev\"].type == \"gpu\""}}],
		"config": [{"opaque": {"driver": "cleave.dev", "parameters": `+parameters+`}}]`+label+`}`)
}

func TestHandler(t *testing.T) {
	causes := func(path string) []metav1.StatusCause {
		return []metav1.StatusCause{
			{Type: "FieldValueForbidden", Field: path + ".computeMod", Message: "Forbidden: unknown field of GPUConfig"},
			{Type: "FieldValueForbidden", Field: path + ".y", Message: "Forbidden: unknown field of GPUConfig"},
		}
	}
	tests := map[string]struct {
		review   string
		causes   []metav1.StatusCause
		warnings []string
	}{
		"claim":    {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("gpu.cleave.dev", good), "null", false)},
		"template": {review: review("ResourceClaimTemplate", "resourceclaimtemplates", "CREATE", template("gpu.cleave.dev", good), "null", false)},
		"class":    {review: review("DeviceClass", "deviceclasses", "CREATE", class(good, ""), "null", false)},
		"WEBH-03 bad claim": {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("gpu.cleave.dev", bad), "null", false),
			causes: causes("spec.devices.config[0].opaque.parameters")},
		"WEBH-03 bad template": {review: review("ResourceClaimTemplate", "resourceclaimtemplates", "CREATE", template("gpu.cleave.dev", bad), "null", false),
			causes: causes("spec.spec.devices.config[0].opaque.parameters")},
		"bad class": {review: review("DeviceClass", "deviceclasses", "CREATE", class(bad, ""), "null", false),
			causes: causes("spec.config[0].opaque.parameters")},
		"dry run": {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("gpu.cleave.dev", bad), "null", true),
			causes: causes("spec.devices.config[0].opaque.parameters")},
		"no such class": {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("tpu.cleave.dev", good), "null", false),
			warnings: []string{`spec.devices.requests[0].exactly.deviceClassName: there is no DeviceClass "tpu.cleave.dev"; until there is, pods with this claim stay pending`}},
		"no such class and bad": {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("tpu.cleave.dev", bad), "null", false),
			causes:   causes("spec.devices.config[0].opaque.parameters"),
			warnings: []string{`spec.devices.requests[0].exactly.deviceClassName: there is no DeviceClass "tpu.cleave.dev"; until there is, pods with this claim stay pending`}},
		"class that cannot be read": {review: review("ResourceClaim", "resourceclaims", "CREATE", claim("slow.cleave.dev", good), "null", false)},

		"what is stored stays changeable": {review: review("ResourceClaim", "resourceclaims", "UPDATE",
			strings.Replace(claim("gpu.cleave.dev", bad), `"uid"`, `"finalizers": [], "uid"`, 1), claim("gpu.cleave.dev", bad), false)},
		"class, made bad": {review: review("DeviceClass", "deviceclasses", "UPDATE", class(bad, ""), class(good, ""), false),
			causes: causes("spec.config[0].opaque.parameters")},
		"class, bad before": {review: review("DeviceClass", "deviceclasses", "UPDATE",
			strings.Replace(class(bad, ""), `"uid"`, `"labels": {"a": "b"}, "uid"`, 1), class(bad, ""), false)},
		"class, bad before, changed": {review: review("DeviceClass", "deviceclasses", "UPDATE", class(bad, `, "extendedResourceName": "a/b"`), class(bad, ""), false),
			causes: causes("spec.config[0].opaque.parameters")},
		"delete": {review: review("ResourceClaim", "resourceclaims", "DELETE", "null", claim("gpu.cleave.dev", bad), false)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response := ask(t, tc.review).Response
			if response.Allowed != (len(tc.causes) == 0) {
				t.Errorf("allowed: %v; %+v", response.Allowed, response.Result)
			}
			var got []metav1.StatusCause
			if response.Result.Details != nil {
				got = response.Result.Details.Causes
			}
			if diff := cmp.Diff(tc.causes, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, response.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if response.Allowed {
				return
			}
			if response.Result.Code != http.StatusUnprocessableEntity || response.Result.Reason != metav1.StatusReasonInvalid {
				t.Errorf("denied with %d %s", response.Result.Code, response.Result.Reason)
			}
			// kubectl prints the message alone.
			for _, part := range []string{`"training" is invalid`, "computeMod: Forbidden: unknown field of GPUConfig", "parameters.y: Forbidden"} {
				if !strings.Contains(response.Result.Message, part) {
					t.Errorf("message does not say %q: %s", part, response.Result.Message)
				}
			}
		})
	}
}

func TestHandlerRefusesWhatItCannotRead(t *testing.T) {
	tests := map[string]struct{ review, want string }{
		"another kind":    {review("ResourceSlice", "resourceslices", "CREATE", object("ResourceSlice", "{}"), "null", false), "resource.k8s.io/v1, Kind=ResourceSlice"},
		"another version": {strings.ReplaceAll(review("ResourceClaim", "resourceclaims", "CREATE", claim("gpu.cleave.dev", good), "null", false), `"version": "v1"`, `"version": "v1beta2"`), "v1beta2"},
		"another form":    {review("ResourceClaim", "resourceclaims", "CREATE", object("ResourceClaim", `[]`), "null", false), "decode the object"},
		"no object":       {review("ResourceClaim", "resourceclaims", "CREATE", "null", "null", false), "decode the object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response := ask(t, tc.review).Response
			if response.Allowed || response.Result.Code != http.StatusBadRequest || !strings.Contains(response.Result.Message, tc.want) {
				t.Errorf("got %+v %+v, want a bad request about %q", response, response.Result, tc.want)
			}
		})
	}
}

// TestLongNames: what a user wrote does not make a warning longer than the API server
// lets pass.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 200)
	body := review("ResourceClaim", "resourceclaims", "CREATE", claim(long+".cleave.dev", good), "null", false)
	for _, w := range ask(t, body).Response.Warnings {
		if len(w) > 256 {
			t.Errorf("%d bytes: %s", len(w), w)
		}
	}
}
