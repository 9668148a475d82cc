package hardware

import (
	"strings"
	"testing"
)

// at makes a place out of a path in sysfs below /sys/devices, the NUMA node last:
// "pci0000:15/0000:15:01.0/0000:1b:00.0 1".
func at(t *testing.T, path string) Place {
	t.Helper()
	path, numa, _ := strings.Cut(path, " ")
	parts := strings.Split(path, "/")
	p := Place{PCIeRoot: parts[0], PCI: PCIAddress(parts[len(parts)-1])}
	for _, b := range parts[1 : len(parts)-1] {
		p.Bridges = append(p.Bridges, PCIAddress(b))
	}
	if numa != "" {
		n := int(numa[0] - '0')
		p.NUMANode = &n
	}
	return p
}

func TestDistanceBetween(t *testing.T) {
	tests := map[string]struct {
		a, b string
		want Distance
	}{
		"a device and itself": {
			a: "pci0000:07/0000:07:01.0/0000:0a:00.0 0", b: "pci0000:07/0000:07:01.0/0000:0a:00.0 0", want: DistancePIX},
		"two functions of one card": {
			a: "pci0000:07/0000:07:01.0/0000:0a:00.0 0", b: "pci0000:07/0000:07:01.0/0000:0a:00.1 0", want: DistancePIX},
		"one switch with a GPU and a NIC": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0 0",
			b:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0 0",
			want: DistancePIX},
		"a virtual function under the switch": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:01.2 0",
			b:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0 0",
			want: DistancePIX},
		"two switches below a third": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0 0",
			b:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0 0",
			want: DistancePXB},
		"the NIC at the upper of two switches": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0 0",
			b:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0 0",
			want: DistancePXB},
		"the NIC's own switch below the GPU's root port": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0 0",
			b:    "pci0000:15/0000:15:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0 0",
			want: DistancePXB},
		"two root ports without a switch": {
			a: "pci0000:15/0000:15:01.0/0000:16:00.0 0", b: "pci0000:15/0000:15:02.0/0000:17:00.0 0", want: DistancePHB},
		"two switches at two root ports": {
			a:    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0 0",
			b:    "pci0000:15/0000:15:02.0/0000:26:00.0/0000:27:00.0/0000:28:00.0 0",
			want: DistancePHB},
		"a virtual machine without bridges": {
			a: "pci0000:00/0000:00:04.0", b: "pci0000:00/0000:00:05.0", want: DistancePHB},
		// On GB200 every GPU and every NIC has a root of its own.
		"GB200, one socket":  {a: "pci0008:00/0008:00:00.0/0008:01:00.0 0", b: "pci0002:00/0002:00:00.0/0002:01:00.0/0002:02:00.0/0002:03:00.0 0", want: DistanceNODE},
		"GB200, two sockets": {a: "pci0018:00/0018:00:00.0/0018:01:00.0 1", b: "pci0002:00/0002:00:00.0/0002:01:00.0/0002:02:00.0/0002:03:00.0 0", want: DistanceSYS},
		"SYSF-01 one NUMA node unknown": {
			a: "pci0000:15/0000:15:01.0/0000:16:00.0", b: "pci0000:25/0000:25:01.0/0000:26:00.0 0", want: DistanceSYS},
		"SYSF-01 both NUMA nodes unknown": {
			a: "pci0000:15/0000:15:01.0/0000:16:00.0", b: "pci0000:25/0000:25:01.0/0000:26:00.0", want: DistanceSYS},
		"SYSF-01 one switch, NUMA nodes unknown": {
			a: "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", b: "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0", want: DistancePIX},
		"SYSF-02 no roots known": {a: "/0000:16:00.0", b: "/0000:26:00.0", want: DistanceSYS},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := at(t, tc.a), at(t, tc.b)
			if got, back := DistanceBetween(a, b), DistanceBetween(b, a); got != tc.want || back != tc.want {
				t.Errorf("got %s, and %s the other way round; want %s", got, back, tc.want)
			}
			if same := a.Switch() != "" && a.Switch() == b.Switch(); same != (tc.want == DistancePIX) {
				t.Errorf("switches %s and %s at %s", a.Switch(), b.Switch(), tc.want)
			}
		})
	}
}

func TestSwitch(t *testing.T) {
	tests := map[string]struct {
		path string
		want PCIAddress
	}{
		"below a switch":              {path: "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", want: "0000:16:00.0"},
		"below two switches":          {path: "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0", want: "0000:18:00.0"},
		"below a root port":           {path: "pci0000:15/0000:15:01.0/0000:16:00.0", want: "0000:15:01.0"},
		"below a bridge, no switch":   {path: "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", want: "0000:15:01.0"},
		"SYSF-02 no bridge":           {path: "pci0000:00/0000:00:04.0"},
		"SYSF-02 not below PCI roots": {path: "/0000:00:04.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := at(t, tc.path).Switch(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for i, near := range distances {
		for j, far := range distances {
			if got := near.Within(far); got != (i <= j) {
				t.Errorf("%s within %s: %v", near, far, got)
			}
		}
		if Distance("").Within(near) || near.Within("") {
			t.Errorf("no distance was compared with %s", near)
		}
	}
}
