// Package allocate asks Kubernetes' own allocator, the code that the scheduler
// runs, which devices claims would get. Tests, benchmarks and the command line
// share it, so that none of them has a belief of its own about scheduling.
package allocate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// ErrNoFit says that the claims, all together, fit nowhere on the node now.
var ErrNoFit = errors.New("no fitting devices are free")

// Input is the part of a cluster that decides about allocation.
type Input struct {
	// Slices are all published ones, of all drivers. Of a pool only those of the
	// highest generation count, and only if they are complete.
	Slices []*resourceapi.ResourceSlice
	// Claims are the existing ones; those with an allocation hold its devices.
	Claims []*resourceapi.ResourceClaim
	// Classes are the DeviceClasses that claims may name.
	Classes []*resourceapi.DeviceClass
	// TaintRules add taints to the slices' devices.
	TaintRules []*resourceapi.DeviceTaintRule
	// Features choose the allocator; see DefaultFeatures.
	Features structured.Features
}

// DefaultFeatures are those that Kubernetes 1.37 has on by default. They lead to
// the allocator that it calls incubating.
func DefaultFeatures() structured.Features {
	return structured.Features{
		AdminAccess:             true,
		ConsumableCapacity:      true,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: true,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
}

// AllFeatures are all that Kubernetes 1.37 knows, alpha ones too. They lead to
// the allocator that it calls experimental.
func AllFeatures() structured.Features {
	f := DefaultFeatures()
	f.CompatibilityGroups = true
	f.DerivedAttributes = true
	f.ListTypeAttributes = true
	f.OptionalNodeOperations = true
	return f
}

// celCacheSize is the scheduler's (dynamicresources.New): a class or request with
// more distinct expressions is compiled anew each time there, and so here.
const celCacheSize = 10

// State is a cluster whose claims come and go. It is not safe for concurrent use.
type State struct {
	features structured.Features
	slices   []*resourceapi.ResourceSlice
	classes  classes
	cache    *cel.Cache
	held     map[types.UID]*resourceapi.AllocationResult
	// allocator is nil after a change: what it once computed from the claims it
	// never computes again.
	allocator structured.Allocator
}

// New takes the input as the present state. Later changes of the input's objects
// must not be made. It fails if the allocator for the features is not there.
func New(ctx context.Context, in Input) (*State, error) {
	s := &State{
		features: in.Features,
		slices:   tainted(in.Slices, in.TaintRules),
		classes:  classes{},
		cache: cel.NewCache(celCacheSize, cel.Features{
			EnableConsumableCapacity: in.Features.ConsumableCapacity,
			EnableListTypeAttributes: in.Features.ListTypeAttributes,
		}),
		held: map[types.UID]*resourceapi.AllocationResult{},
	}
	for _, class := range in.Classes {
		s.classes[class.Name] = class
	}
	for _, claim := range in.Claims {
		if claim.Status.Allocation != nil {
			s.held[claim.UID] = claim.Status.Allocation
		}
	}
	return s, s.refresh(ctx)
}

// Allocate finds devices for all the claims together, as for the claims of one
// pod, without keeping them; see Hold. The results are in the order of the
// claims. ErrNoFit is the normal way to fail; any other error is about the claims
// or the slices, and ctx bounds the search, which is exhaustive.
func (s *State) Allocate(ctx context.Context, node *corev1.Node, claims ...*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	results, err := s.allocator.Allocate(ctx, node, claims)
	if err != nil {
		return nil, fmt.Errorf("allocate %d claims on node %s: %w", len(claims), node.Name, err)
	}
	if results == nil && len(claims) > 0 {
		return nil, fmt.Errorf("allocate %d claims on node %s: %w", len(claims), node.Name, ErrNoFit)
	}
	return results, nil
}

// Hold makes the claim hold what Allocate found for it, in place of what it held
// before.
func (s *State) Hold(claim types.UID, result resourceapi.AllocationResult) {
	s.held[claim] = result.DeepCopy()
	s.allocator = nil
}

// Release frees what the claim holds, if anything.
func (s *State) Release(claim types.UID) {
	delete(s.held, claim)
	s.allocator = nil
}

// Publish replaces the slices, as if drivers had published others; rules that
// New got are not applied to them.
func (s *State) Publish(published []*resourceapi.ResourceSlice) {
	s.slices = published
	s.allocator = nil
}

func (s *State) refresh(ctx context.Context) error {
	if s.allocator != nil {
		return nil
	}
	allocator, err := structured.NewAllocator(ctx, s.features, allocated(maps.Values(s.held)), s.classes, s.slices, s.cache)
	if err != nil {
		return fmt.Errorf("make allocator: %w", err)
	}
	s.allocator = allocator
	return nil
}

// classes is a lister of DeviceClasses by name.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var out []*resourceapi.DeviceClass
	for _, name := range slices.Sorted(maps.Keys(c)) {
		out = append(out, c[name])
	}
	return out, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	class, ok := c[name]
	if !ok {
		return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
	}
	return class, nil
}
