package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Path is where the API server finds the handler.
const Path = "/validate"

// Kind is a row of the handler's table: objects of one version and kind, and who
// decides over them.
type Kind struct {
	gvk    schema.GroupVersionKind
	decide func(ctx context.Context, object, old []byte) (Decision, error)
}

// KindOf makes the row of the type T. Its decision is not asked for where an update
// leaves the spec as it was: what is already stored must stay changeable, above all
// while it is being deleted.
func KindOf[T, S any](gvk schema.GroupVersionKind, spec func(*T) S, decide func(context.Context, *T) Decision) Kind {
	return Kind{gvk: gvk, decide: func(ctx context.Context, object, old []byte) (Decision, error) {
		now := new(T)
		if err := json.Unmarshal(object, now); err != nil {
			return Decision{}, fmt.Errorf("decode the object: %w", err)
		}
		if len(old) > 0 {
			before := new(T)
			if err := json.Unmarshal(old, before); err != nil {
				return Decision{}, fmt.Errorf("decode the old object: %w", err)
			}
			if equality.Semantic.DeepEqual(spec(before), spec(now)) {
				return Decision{}, nil
			}
		}
		return decide(ctx, now), nil
	}}
}

// Handler answers AdmissionReviews. It changes nothing anywhere, so a dry run is like
// any other.
type Handler struct {
	kinds map[schema.GroupVersionKind]Kind
}

var _ admission.Handler = &Handler{}

// NewHandler makes the handler for claims, templates and DeviceClasses, and for more
// kinds. Classes are read from reader; one that cannot be read counts as unknown.
func NewHandler(reviewer *Reviewer, reader client.Reader, more ...Kind) *Handler {
	h := &Handler{kinds: map[schema.GroupVersionKind]Kind{}}
	gvk := resourceapi.SchemeGroupVersion.WithKind
	for _, k := range append([]Kind{
		KindOf(gvk("ResourceClaim"), func(c *resourceapi.ResourceClaim) resourceapi.ResourceClaimSpec { return c.Spec },
			func(ctx context.Context, c *resourceapi.ResourceClaim) Decision {
				return reviewer.Claim(c.Spec, classes(ctx, reader, c.Spec), field.NewPath("spec"))
			}),
		KindOf(gvk("ResourceClaimTemplate"), func(t *resourceapi.ResourceClaimTemplate) resourceapi.ResourceClaimTemplateSpec { return t.Spec },
			func(ctx context.Context, t *resourceapi.ResourceClaimTemplate) Decision {
				return reviewer.Claim(t.Spec.Spec, classes(ctx, reader, t.Spec.Spec), field.NewPath("spec", "spec"))
			}),
		KindOf(gvk("DeviceClass"), func(c *resourceapi.DeviceClass) resourceapi.DeviceClassSpec { return c.Spec },
			func(_ context.Context, c *resourceapi.DeviceClass) Decision { return reviewer.Class(c.Spec) }),
	}, more...) {
		h.kinds[k.gvk] = k
	}
	return h
}

// classes reads the classes that a claim names.
func classes(ctx context.Context, reader client.Reader, spec resourceapi.ResourceClaimSpec) Classes {
	out := Classes{}
	for _, name := range ClassNames(spec) {
		class := &resourceapi.DeviceClass{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, class)
		switch {
		case err == nil:
			out[name] = class
		case apierrors.IsNotFound(err):
			out[name] = nil
		default:
			klog.FromContext(ctx).Info("Deciding without a DeviceClass, which could not be read", "class", name, "err", err)
		}
	}
	return out
}

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	gvk := schema.GroupVersionKind(req.Kind)
	kind, ok := h.kinds[gvk]
	if !ok {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("nobody here decides over %s: the webhook configuration sends what it should not", gvk))
	}
	d, err := kind.decide(ctx, req.Object.Raw, req.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	logger := klog.FromContext(ctx)
	if len(d.Errors) == 0 {
		logger.V(4).Info("Allowed", "kind", gvk.Kind, "warnings", len(d.Warnings))
		return admission.Allowed("").WithWarnings(d.Warnings...)
	}
	name := req.Name
	if name == "" {
		name = generateName(req.Object.Raw)
	}
	status := apierrors.NewInvalid(gvk.GroupKind(), name, d.Errors).Status()
	logger.V(2).Info("Denied", "kind", gvk.Kind, "reason", status.Message)
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}.WithWarnings(d.Warnings...)
}

// generateName is what an object that has no name yet is called in messages.
func generateName(raw []byte) string {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	return object.GenerateName
}
