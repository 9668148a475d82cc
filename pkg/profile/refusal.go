package profile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The reasons for which a profile is refused, in the form of a condition's reason.
const (
	// ReasonTooMany: more requests, alternatives, devices or configurations than the API
	// allows in a claim.
	ReasonTooMany = "TooMany"
	// ReasonMarketingSize: the memory asked for is what a GPU or a MIG slice is named
	// after, and it has less.
	ReasonMarketingSize = "MarketingSize"
	// ReasonNoSuchSlice: no GPU in the cluster offers a MIG slice that is large enough.
	ReasonNoSuchSlice = "NoSuchSlice"
	// ReasonMisaligned: what belongs together would be chosen independently.
	ReasonMisaligned = "Misaligned"
	// ReasonNotWholeNode: the group is not all of a node, or not the same on all nodes.
	ReasonNotWholeNode = "NotWholeNode"
	// ReasonSearchTooLong: the scheduler may search for too long where it does not fit.
	ReasonSearchTooLong = "SearchTooLong"
	// ReasonDoesNotApply: a constraint or a configuration is not for these devices.
	ReasonDoesNotApply = "DoesNotApply"
	// ReasonNameConflict: the names of two requests would be the same.
	ReasonNameConflict = "NameConflict"
)

// Refusal is why no claim is made of a profile.
type Refusal struct {
	// Reason is one of the constants.
	Reason string
	// Field is what to change.
	Field *field.Path
	// Detail says what is in the way and what would do.
	Detail string
}

// Error is for a person.
func (r Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Field, r.Detail) }

// Refusals are all that is in the way, at least one. Render returns them as its error.
type Refusals []Refusal

// Error has all of them.
func (r Refusals) Error() string {
	var all []string
	for _, one := range r {
		all = append(all, one.Error())
	}
	return strings.Join(all, "; ")
}

func (r *Refusals) add(reason string, at *field.Path, format string, args ...any) {
	*r = append(*r, Refusal{Reason: reason, Field: at, Detail: fmt.Sprintf(format, args...)})
}
