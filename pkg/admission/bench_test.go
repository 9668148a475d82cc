package admission_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/cleave-dra/cleave/pkg/admission"
)

// BenchmarkHandle measures what a claim costs the controller, without TLS and HTTP.
func BenchmarkHandle(b *testing.B) {
	reviewer, err := admission.NewReviewer("cleave.dev")
	if err != nil {
		b.Fatal(err)
	}
	handler := admission.NewHandler(reviewer, reader{})
	for name, object := range map[string]string{"good": claim("gpu.cleave.dev", good), "bad": claim("gpu.cleave.dev", bad)} {
		b.Run(name, func(b *testing.B) {
			var in admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(review("ResourceClaim", "resourceclaims", "CREATE", object, "null", false)), &in); err != nil {
				b.Fatal(err)
			}
			request := webhook.Request{AdmissionRequest: *in.Request}
			for b.Loop() {
				if got := handler.Handle(b.Context(), request).Allowed; got != (name == "good") {
					b.Fatalf("allowed: %v", got)
				}
			}
		})
	}
}
