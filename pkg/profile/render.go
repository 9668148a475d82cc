// Package profile makes claims of profiles: the few words in which a team says what a
// pod needs become the requests, constraints and configurations of a ResourceClaim, in
// the form that the scheduler is quickest with. It is pure.
//
// What the forms are follows from measurements of the scheduler's allocator, which
// searches exhaustively where a claim does not fit: devices that are alike are one
// request with a count; what is larger or scarcer comes first; GPUs and NICs that belong
// together are devices of their own where these are published, at most four pairs by
// constraint where not, and simply all of both on a whole node. What would take too long
// or come out wrong is refused, with the reason.
package profile

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cleave-dra/cleave/api/v1alpha1"
)

// Claim is what a profile becomes.
type Claim struct {
	// Spec is that of a ResourceClaim, complete: the API server adds no defaults to it.
	Spec resourceapi.ResourceClaimSpec
	// Notes are for whoever wrote the profile: the claim is right, but will not be
	// fulfilled as the cluster is now, or not everywhere.
	Notes []string
}

// Render makes the claim of a profile that has passed the API server's validation. The
// driver is the name under which devices are published and which ends the DeviceClasses'
// names. The error, if any, is Refusals.
func Render(spec v1alpha1.ClaimProfileSpec, inventory Inventory, driver string) (Claim, error) {
	r := &renderer{driver: driver, inventory: inventory}
	at := field.NewPath("spec")
	r.checkAlternatives(spec, at)
	blocks := make([]block, 0, len(spec.Groups))
	for _, g := range spec.Groups {
		blocks = append(blocks, r.group(g, at.Child("groups").Key(g.Name)))
	}
	if len(r.refusals) == 0 {
		blocks = arrange(blocks)
	}
	constraints := r.constraints(spec, blocks, at)
	if len(r.refusals) > 0 {
		return Claim{}, r.refusals
	}
	claim := r.assemble(blocks, constraints)
	r.checkLimits(claim.Spec.Devices, blocks, at)
	r.checkSearch(blocks, at)
	if len(r.refusals) > 0 {
		return Claim{}, r.refusals
	}
	return claim, nil
}

// classLabels make the name of a profile's DeviceClass, as the chart does.
var classLabels = strings.NewReplacer("+", ".", "-", ".no-")

// renderer works on one profile.
type renderer struct {
	driver    string
	inventory Inventory
	refusals  Refusals
	notes     []string
	// matched is how many pairs are matched by constraints so far.
	matched int
}

func (r *renderer) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// block is what a group becomes: requests that stay in this order.
type block struct {
	group       v1alpha1.ClaimGroup
	asks        []ask
	constraints []resourceapi.DeviceConstraint
	// matched tells that the asks are pairs, a NIC and a GPU each, tied by constraints.
	matched bool
	// parent is not 0 if a constraint ties the slices to one GPU, and the same for all
	// blocks that it ties.
	parent int
}

// refused tells that nothing was made of the group, for which there is a refusal.
func (b block) refused() bool {
	return !slices.ContainsFunc(b.asks, func(a ask) bool { return len(a.options) > 0 })
}

// ask is one request, with several options if these are alternatives.
type ask struct {
	name    string
	options []option
}

// option is how an ask can be met.
type option struct {
	member
	class string
	// selector is empty where the class says all.
	selector string
	// share tells that the bandwidth is a share of a NIC that others use too.
	share bool
	// stock is the most that can be had of a node, devices the most that it has.
	stock, devices int
}

// checkAlternatives refuses alternatives in two groups: the scheduler chooses each by
// itself, so the first of one may come with the second of the other.
func (r *renderer) checkAlternatives(spec v1alpha1.ClaimProfileSpec, at *field.Path) {
	first := ""
	for _, g := range spec.Groups {
		switch {
		case len(g.FirstAvailable) == 0:
		case first == "":
			first = g.Name
		default:
			r.refusals.add(ReasonMisaligned, at.Child("groups").Key(g.Name).Child("firstAvailable"),
				"the scheduler would choose it independently of that of group %s, so that the first alternative of one could come with the second of the other; a profile can have one group with alternatives, a pod can name several profiles", first)
		}
	}
}

// group decides what a group becomes.
func (r *renderer) group(g v1alpha1.ClaimGroup, at *field.Path) block {
	b := block{group: g}
	members := []member{memberOf(g.ClaimMembers)}
	if len(g.FirstAvailable) > 0 {
		members = nil
		for _, a := range g.FirstAvailable {
			members = append(members, memberOf(a.ClaimMembers))
		}
	}
	switch one := members[0]; {
	case g.WholeNode:
		r.checkMemory(one, at.Child(one.field()))
		b.asks = r.wholeNode(g, one, at)
	case len(members) == 1 && one.kind == kindPair && !r.pairsAreDevices(one):
		r.checkMemory(one, at.Child(one.field()))
		b.matched = true
		b.asks, b.constraints = r.matchedPairs(g.Name, one, at)
	default:
		b.asks = []ask{r.request(g, members, at)}
	}
	return b
}

// request is a group as one request.
func (r *renderer) request(g v1alpha1.ClaimGroup, members []member, at *field.Path) ask {
	out := ask{name: g.Name}
	for i, m := range members {
		at := at
		if len(g.FirstAvailable) > 0 {
			at = at.Child("firstAvailable").Index(i)
			if m.kind == kindPair && !r.pairsAreDevices(m) {
				r.refusals.add(ReasonMisaligned, at.Child("gpuWithNIC"), "the cluster publishes no such pairs as devices, so that the NIC would be chosen independently of the alternatives for the GPU; switch on the chart's topology.pairs, or leave the alternatives out")
			}
		}
		at = at.Child(m.field())
		r.checkMemory(m, at)
		if m.kind != kindMIG || m.profile != "" {
			o := r.option(m)
			o.share = r.shared(m)
			out.options = append(out.options, o)
			continue
		}
		for _, profile := range r.choose(m, at) {
			m.profile = profile
			out.options = append(out.options, r.option(m))
		}
	}
	r.oneClass(&out)
	if !slices.ContainsFunc(out.options, func(o option) bool { return o.stock >= o.count }) && len(out.options) > 0 {
		r.note("group %s: no node of the cluster offers this now", g.Name)
	}
	return out
}

// option is a member with the class and the selector that say what it is.
func (r *renderer) option(m member) option {
	o := option{member: m, class: r.class(m.kind)}
	if m.kind == kindNIC {
		o.class = r.class("rdma")
	}
	if m.kind == kindMIG {
		if class := r.class("mig-" + classLabels.Replace(m.profile)); slices.Contains(r.inventory.Classes, class) {
			o.class = class
		}
	}
	o.selector = m.selector(r.driver, o.class == r.class("mig"))
	o.stock, o.devices = m.stock(r.inventory)
	return o
}

// oneClass lets alternatives among MIG profiles share the class of all MIG slices:
// quotas count a request once for each class that it names.
func (r *renderer) oneClass(a *ask) {
	mig := func(o option) bool { return o.kind == kindMIG }
	first := slices.IndexFunc(a.options, mig)
	if first < 0 || !slices.ContainsFunc(a.options[first+1:], mig) {
		return
	}
	for i, o := range a.options {
		if o.kind == kindMIG {
			a.options[i].class, a.options[i].selector = r.class("mig"), o.member.selector(r.driver, true)
		}
	}
}

// shared tells whether NICs that the member asks for a bandwidth of are shared.
func (r *renderer) shared(m member) bool {
	return m.kind == kindNIC && m.nic.Bandwidth != nil && slices.ContainsFunc(r.inventory.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.NICs, func(s Stock[NIC]) bool { return s.Kind.Shared && m.isNIC(s.Kind) })
	})
}

func (r *renderer) class(name string) string { return name + "." + r.driver }

// field is the one in which a user wrote the member.
func (m member) field() string {
	if m.kind == kindPair {
		return "gpuWithNIC"
	}
	return m.kind
}
