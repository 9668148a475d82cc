// Package admission decides over the objects that people write for Cleave before the
// API server takes them, with the code that the node runs later. What could never work
// is refused, with all errors at once; what is legal but unwise is answered with
// warnings. The decisions are pure; Handler carries AdmissionReviews to them.
package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Decision is what is said of an object. Without errors it is allowed.
type Decision struct {
	Errors field.ErrorList
	// Warnings are for the person who sends the object, one line each, with the path of
	// the field that they are about.
	Warnings []string
}

// maxWarning is how long a warning may be before the API server cuts it (the limit for
// admission webhooks, k8s.io/api/admission/v1).
const maxWarning = 256

func (d *Decision) warn(path *field.Path, format string, args ...any) {
	text := fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, args...))
	if len(text) > maxWarning {
		text = text[:maxWarning-3] + "..."
	}
	d.Warnings = append(d.Warnings, text)
}
