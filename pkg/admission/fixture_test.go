package admission

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const driver = "cleave.dev"

func reviewer(t testing.TB) *Reviewer {
	t.Helper()
	r, err := NewReviewer(driver)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// known are the chart's classes, one that checks nothing, and another driver's.
func known() Classes {
	own := func(expression string) string {
		return fmt.Sprintf(`device.driver == "cleave.dev" && device.attributes["cleave.dev"].%s`, expression)
	}
	classes := Classes{}
	for name, expression := range map[string]string{
		"gpu.cleave.dev":         own(`type == "gpu"`),
		"mig.cleave.dev":         own(`type == "mig"`),
		"rdma.cleave.dev":        own(`type == "nic"`),
		"gpu-nic.cleave.dev":     own(`type == "gpu-nic"`),
		"mig-1g.10gb.cleave.dev": own(`?profile.orValue("") == "1g.10gb"`),
		"all.cleave.dev":         `device.driver == "cleave.dev"`,
		"two-drivers":            `device.driver == "gpu.nvidia.com" || device.driver == "cleave.dev" && device.attributes["cleave.dev"].type == "gpu"`,
		"gpu.nvidia.com":         `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`,
	} {
		classes[name] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}}
	}
	classes["everything"] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "everything"}}
	classes["gone.cleave.dev"] = nil
	return classes
}

// decode reads YAML as the API server reads JSON.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func errorsOf(d Decision) []string {
	var out []string
	for _, err := range d.Errors {
		out = append(out, err.Error())
	}
	return out
}
