package admission

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	stdslices "slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleave-dra/cleave/pkg/catalog"
	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/selector"
	"github.com/cleave-dra/cleave/pkg/slices"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// ware is something that is sold by the size of its memory and has a little less: an
// 80 GB GPU, or a 20gb slice, which holds 19.62 GiB.
type ware struct {
	kind params.DeviceType
	// name is the profile's or the product's; size is what that says, in GiB.
	name string
	size int64
	// bytes is the memory that it has.
	bytes int64
	// real is the device; below, at and above are what it would be if it had about the
	// memory that its name says.
	real, below, at, above selector.Device
}

// sizePattern finds the size in the name of a MIG profile ("2g.20gb") or of a model of
// the catalog ("h100-80gb-sxm").
var sizePattern = regexp.MustCompile(`[.-]([0-9]+)gb`)

// wares are the GPUs and MIG slices of all known models that have less memory than
// their names say. The catalog is good enough for a warning; the driver itself
// believes NVML only.
func wares(driver string) ([]ware, error) {
	found := map[ware]bool{}
	note := func(kind params.DeviceType, name, model string, bytes int64) {
		m := sizePattern.FindStringSubmatch(model)
		if m == nil {
			return
		}
		size, err := strconv.ParseInt(m[1], 10, 64)
		if err == nil && bytes < size*gib {
			found[ware{kind: kind, name: name, size: size, bytes: bytes}] = true
		}
	}
	for _, name := range catalog.Models() {
		model, _, err := catalog.LoadModel(name)
		if errors.Is(err, catalog.ErrNotKnown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		note(params.WholeGPU, model.ProductName, name, model.MemoryMiB*mib)
		if model.MIG == nil {
			continue
		}
		for _, p := range model.MIG.Profiles {
			note(params.MIGSlice, p.Name, p.Name, p.MemoryMiB*mib)
		}
	}
	var out []ware
	for w := range maps.Keys(found) {
		w, err := w.describe(driver)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	stdslices.SortFunc(out, func(a, b ware) int {
		return strings.Compare(fmt.Sprintf("%04d %s %d", a.size, a.name, a.bytes), fmt.Sprintf("%04d %s %d", b.size, b.name, b.bytes))
	})
	return out, nil
}

// describe makes the two devices.
func (w ware) describe(driver string) (ware, error) {
	naming := slices.AttributeProfile
	if w.kind == params.WholeGPU {
		naming = slices.AttributeProductName
	}
	i := stdslices.IndexFunc(natures(), func(n nature) bool { return n.kind == w.kind })
	all := natures()[i].always.and(natures()[i].sometimes)
	unknown := func(taken resourceapi.QualifiedName, names []resourceapi.QualifiedName) []resourceapi.QualifiedName {
		return stdslices.DeleteFunc(names, func(n resourceapi.QualifiedName) bool { return n == taken })
	}
	known := selector.Known{
		Driver:     driver,
		Text:       map[resourceapi.QualifiedName]string{slices.AttributeType: string(w.kind), naming: w.name},
		Attributes: unknown(naming, all.attributes),
		Capacity:   unknown(slices.CapacityMemory, all.capacity),
	}
	for device, bytes := range map[*selector.Device]int64{
		&w.real: w.bytes, &w.below: w.size*gib - mib, &w.at: w.size * gib, &w.above: w.size*gib + mib,
	} {
		known.Size = map[resourceapi.QualifiedName]resource.Quantity{slices.CapacityMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
		var err error
		if *device, err = selector.NewDevice(known); err != nil {
			return ware{}, fmt.Errorf("describe %s: %w", w.name, err)
		}
	}
	return w, nil
}

// missed says which wares selectors leave out because they compare memory with the
// size in the name; "" if none.
func missed(all []ware, selectors []*selector.Selector) string {
	may := func(d selector.Device) bool {
		answer, _, _ := selector.All(selectors, d)
		return answer == selector.Maybe
	}
	var names []string
	last := ""
	for _, w := range all {
		if w.name != last && !may(w.real) && !may(w.below) && (may(w.at) || may(w.above)) {
			last = w.name
			names = append(names, fmt.Sprintf("%s has %.2f GiB", w.name, float64(w.bytes)/gib))
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - 2; more > 0 {
		names = append(names[:2], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("leaves out what has a little less memory than its name says (%s): compare with clearly less", strings.Join(names, ", "))
}
