package slices_test

import (
	"fmt"
	"maps"
	stdslices "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/slices"
)

// TestBuildServersGolden compares, for every server of the catalogue that has NICs,
// where GPUs, NICs and pairs sit, their order and what they take. That discovery finds
// these servers in the simulated /sys is tested elsewhere (test/testkit/drivertest). MIG
// slices, which sit where their GPU does, are only counted; see TestBuildOrderGolden.
func TestBuildServersGolden(t *testing.T) {
	for _, name := range catalog.Servers() {
		node := server(t, name)
		if len(node.NICs) == 0 {
			continue
		}
		for kind, pairs := range map[string]bool{"nics": false, "pairs": true} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				golden(t, "servers/"+name+"."+kind, layout(t, node, slices.Options{Pairs: pairs}))
			})
		}
	}
}

// TestBuildListsGolden is the same for lists, where sockets have several NUMA nodes. On
// the other servers nothing changes.
func TestBuildListsGolden(t *testing.T) {
	for _, name := range catalog.Servers() {
		t.Run(name, func(t *testing.T) {
			node := server(t, name)
			got := layout(t, node, slices.Options{Lists: true})
			if name == "dgx-a100" {
				golden(t, "servers/"+name+".lists", got)
				return
			}
			if diff := cmp.Diff(layout(t, node, slices.Options{}), got); diff != "" {
				t.Errorf("lists without a need (-without +with):\n%s", diff)
			}
		})
	}
}

// layout is how the node's devices are laid out.
func layout(t *testing.T, node hardware.Node, opts slices.Options) string {
	t.Helper()
	opts.NodeName, opts.Partitions, opts.Rails = "worker-1", true, hardware.Rails(node, nil)
	built := build(t, node, opts)
	var text strings.Builder
	for _, pool := range stdslices.Sorted(maps.Keys(built.Pools)) {
		fmt.Fprintf(&text, "pool %s\n%s", pool, render(built.Pools[pool], placed))
	}
	return text.String()
}

// placed is what whoever places a claim goes by: the name, where the device sits, what
// network it leads to, and the counter sets that it takes from. It is nothing for MIG
// slices.
func placed(d resourceapi.Device) string {
	kind := *d.Attributes[slices.AttributeType].StringValue
	if kind == slices.TypeMIG {
		return ""
	}
	line := fmt.Sprintf("%s %s", d.Name, kind)
	for _, a := range []struct {
		label string
		name  resourceapi.QualifiedName
	}{
		{"root", deviceattribute.StandardDeviceAttributePCIeRoot}, {"switch", slices.AttributePCIeSwitch},
		{"numa", deviceattribute.StandardDeviceAttributeNUMANode}, {"nvlink", slices.AttributeNVLinkDomain},
		{"rdma", slices.AttributeRDMADevice}, {"link", slices.AttributeLinkLayer}, {"rail", slices.AttributeRail}, {"vf-of", slices.AttributeParent},
	} {
		switch v := d.Attributes[a.name]; {
		case v.StringValue != nil:
			line += fmt.Sprintf(" %s=%s", a.label, *v.StringValue)
		case v.IntValue != nil:
			line += fmt.Sprintf(" %s=%d", a.label, *v.IntValue)
		case len(v.IntValues) > 0:
			line += fmt.Sprintf(" %s=%v", a.label, v.IntValues)
		}
	}
	if c, ok := d.Capacity[slices.CapacityBandwidth]; ok {
		line += " bandwidth=" + c.Value.String()
	}
	var sets []string
	for _, c := range d.ConsumesCounters {
		sets = append(sets, c.CounterSet)
	}
	if len(sets) > 0 {
		line += " takes=" + strings.Join(sets, ",")
	}
	return line
}
