package admission

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	stdslices "slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/selector"
)

// reading is what selectors mean for the driver's devices.
type reading struct {
	// types are those of which devices may be selected.
	types []params.DeviceType
	// others tells that devices of other drivers may be selected.
	others bool
	// warnings are about the request's selectors, by index.
	warnings map[int][]string
}

// reader reads selectors. It is safe for concurrent use.
type reader struct {
	driver    string
	specimens []specimen
	wares     []ware
	stranger  selector.Device
	// known are readings by the text of the selectors, on which alone they depend.
	known *lru.Cache
}

// stranger is a driver that nobody has.
const stranger = "stranger.invalid"

// readings is how many are kept: a cluster has some classes, and its users some
// selectors for each.
const readings = 1024

func newReader(driver string) (*reader, error) {
	r := &reader{driver: driver, known: lru.New(readings)}
	var err error
	if r.specimens, err = specimens(driver); err != nil {
		return nil, err
	}
	if r.wares, err = wares(driver); err != nil {
		return nil, fmt.Errorf("read the sizes of known GPUs: %w", err)
	}
	r.stranger, err = selector.NewDevice(selector.Known{Driver: stranger})
	return r, err
}

// mentions tells whether a selector speaks of the driver.
func (r *reader) mentions(selectors []resourceapi.DeviceSelector) bool {
	return stdslices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
		return s.CEL != nil && strings.Contains(s.CEL.Expression, r.driver)
	})
}

// anything is the reading of what is not known.
func anything() reading { return reading{types: params.DeviceTypes(), others: true} }

// read reads a class's selectors and then a request's. Those of the class are taken as
// they are: who writes a request cannot change them. If one does not compile, which
// the API server refuses by itself, nothing is known.
func (r *reader) read(class, own []resourceapi.DeviceSelector) reading {
	hash := sha256.New() // keys of one size, however long selectors are
	_, _ = fmt.Fprint(hash, len(class))
	var texts []string
	for _, s := range stdslices.Concat(class, own) {
		if s.CEL == nil {
			return anything()
		}
		texts = append(texts, s.CEL.Expression)
		_, _ = fmt.Fprintf(hash, "\x00%s", s.CEL.Expression)
	}
	key := string(hash.Sum(nil))
	if known, ok := r.known.Get(key); ok {
		return known.(reading)
	}
	out := r.readTexts(texts, len(class))
	r.known.Add(key, out)
	return out
}

func (r *reader) readTexts(texts []string, class int) reading {
	var selectors []*selector.Selector
	for _, text := range texts {
		s, err := selector.Compile(text)
		if err != nil {
			return anything()
		}
		selectors = append(selectors, s)
	}
	out := reading{others: r.others(texts, selectors), warnings: map[int][]string{}}
	warn := func(i int, format string, args ...any) {
		if i >= class { // the first is enough of each kind
			out.warnings[i-class] = append(out.warnings[i-class], fmt.Sprintf(format, args...))
		}
	}
	if answer, i, reason := selector.All(selectors, r.stranger); answer == selector.Fails {
		warn(i, `fails on devices of other drivers (%s), and then the pod stays pending: begin with device.driver == %q &&`, reason, r.driver)
	}
	var failed []string
	for _, s := range r.specimens {
		if answer, _, _ := selector.All(selectors, s.full); answer != selector.No {
			out.types = append(out.types, s.kind)
		}
		answer, i, reason := selector.All(selectors, s.least)
		if answer == selector.Fails && !stdslices.Contains(failed, reason) {
			failed = append(failed, reason)
			warn(i, "fails on %s that lack what it reads (%s), and then the pod stays pending: %s", s.called, reason, guard(reason))
		}
	}
	for i := class; i < len(texts); i++ {
		if !strings.Contains(texts[i], "memory") {
			continue
		}
		if text := missed(r.wares, selectors[:i+1]); text != "" && missed(r.wares, selectors[:i]) != text {
			warn(i, "%s", text)
		}
	}
	return out
}

// guard says how to write it instead.
func guard(reason string) string {
	if key, ok := strings.CutPrefix(reason, "no such key: "); ok {
		return fmt.Sprintf("write .?%s.orValue(...), or ask has(...) before", key)
	}
	return "ask has(...) before"
}

// driverPattern finds what may be a driver's name in an expression.
var driverPattern = regexp.MustCompile(`["']([a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+)["']`)

// others tells whether a device of some other driver may be selected: of one that
// nobody has, or of one that a selector names.
func (r *reader) others(texts []string, selectors []*selector.Selector) bool {
	if answer, _, _ := selector.All(selectors, r.stranger); answer != selector.No {
		return true
	}
	for _, m := range driverPattern.FindAllStringSubmatch(strings.Join(texts, " "), -1) {
		if m[1] == r.driver {
			continue
		}
		device, err := selector.NewDevice(selector.Known{Driver: m[1]})
		if err != nil {
			return true
		}
		if answer, _, _ := selector.All(selectors, device); answer != selector.No {
			return true
		}
	}
	return false
}
