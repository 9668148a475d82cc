//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// Simulated device nodes have no kernel driver behind them, so that opening one
// fails with ENXIO where the device cgroup allows it, and with EPERM where not.
const (
	permitted = "No such device or address"
	forbidden = "Operation not permitted"
)

// commonNodes are those that each container with a GPU may have.
var commonNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

func TestContainerReachesItsDevicesOnly(t *testing.T) {
	e := newEnv(t)
	e.template("gpu", ask("gpu.cleave.dev"))
	e.template("mig", ask("mig-2g.20gb.cleave.dev"))
	e.template("pair", resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		request("whole", "gpu.cleave.dev"), request("part", "mig-1g.10gb.cleave.dev"),
	}}})
	both := e.sleeper("both", dgx, "pair")
	both.Spec.Containers = []corev1.Container{
		e.container("whole", sleep, corev1.ResourceClaim{Name: mainClaim, Request: "whole"}),
		e.container("part", sleep, corev1.ResourceClaim{Name: mainClaim, Request: "part"}),
		e.container("all", sleep, corev1.ResourceClaim{Name: mainClaim}),
		e.container("none", sleep),
	}
	pods := []*corev1.Pod{e.sleeper("gpu", dgx, "gpu"), e.sleeper("mig", dgx, "mig"), both}
	for _, pod := range pods {
		e.create(pod)
	}
	for _, pod := range pods {
		pod = e.ready(pod.Name)
		for _, c := range pod.Spec.Containers {
			e.run(pod.Name+"/"+c.Name, func(e *env) { e.checkNodes(pod, c.Name) })
		}
	}
}

// checkNodes compares the device nodes in a container with those of its devices,
// opens them, and tries to get at the other GPUs of the node.
func (e *env) checkNodes(pod *corev1.Pod, container string) {
	var want []string
	var seen []cluster.Seen
	if container != "none" { // which has no nvidia-smi either
		seen = e.look(pod, container)
	}
	for _, s := range seen {
		for _, node := range e.nodesOf(s) {
			if !slices.Contains(want, node) {
				want = append(want, node)
			}
		}
	}
	slices.Sort(want)
	got := strings.Fields(e.in(pod, container, "find /dev -name 'nvidia*' ! -type d | sort"))
	if len(seen) > 0 && !slices.Contains(got, "/dev/nvidiactl") {
		e.t.Errorf("/dev/nvidiactl is missing")
	}
	own := slices.DeleteFunc(slices.Clone(got), func(path string) bool { return len(seen) > 0 && slices.Contains(commonNodes, path) })
	if diff := cmp.Diff(want, own, cmpopts.EquateEmpty()); diff != "" {
		e.t.Errorf("device nodes in the container (-want +got):\n%s", diff)
	}
	for path, answer := range e.open(pod, container, got) {
		if answer != permitted {
			e.t.Errorf("open %s: %q, want %q, which the kernel says where it may be opened", path, answer, permitted)
		}
	}
	for path, answer := range e.openByNumber(pod, container, e.foreignGPUs(seen)) {
		if answer != forbidden {
			e.t.Errorf("open a node made with the numbers of %s: %q, want %q", path, answer, forbidden)
		}
	}
}

// nodesOf are the nodes of a device besides the common ones, as the simulated
// hardware has them. The minors of MIG capabilities are those that the driver
// tells in /proc.
func (e *env) nodesOf(s cluster.Seen) []string {
	e.t.Helper()
	gpu := e.gpu(dgx, s.GPU.UUID)
	nodes := []string{fmt.Sprintf("/dev/nvidia%d", gpu.Minor)}
	if s.MIG == nil {
		return nodes
	}
	for _, gi := range gpu.Instances {
		for _, ci := range gi.Compute {
			if ci.UUID != s.MIG.UUID {
				continue
			}
			out := e.on(dgx, fmt.Sprintf(
				"cd %s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d && sed -n 's/^DeviceFileMinor: *//p' access ci%d/access",
				simulatedRoot, gpu.Minor, gi.ID, ci.ID))
			for _, minor := range strings.Fields(out) {
				nodes = append(nodes, "/dev/nvidia-caps/nvidia-cap"+minor)
			}
			if len(nodes) != 3 {
				e.t.Fatalf("want the minors of two MIG capabilities, got %q", out)
			}
			return nodes
		}
	}
	e.t.Fatalf("the simulated GPU %s has no MIG device %s", s.GPU.UUID, s.MIG.UUID)
	return nil
}

// open tries to open files in a container and returns what the kernel says.
func (e *env) open(pod *corev1.Pod, container string, paths []string) map[string]string {
	e.t.Helper()
	const script = `export LC_ALL=C
for path; do
	if answer=$({ exec 3<"$path"; } 2>&1); then answer=opened; fi
	echo "$path ${answer##*: }"
done`
	return e.answers(e.in(pod, container, script, paths...), len(paths))
}

// openByNumber makes device nodes in a container and opens them; it takes and
// returns "name:major:minor". Where the node cannot be made that is the answer.
func (e *env) openByNumber(pod *corev1.Pod, container string, numbers []string) map[string]string {
	e.t.Helper()
	const script = `export LC_ALL=C
for number; do
	IFS=: read -r name major minor <<<"$number"
	if ! answer=$(mknod /tmp/probe c "$major" "$minor" 2>&1); then :
	elif answer=$({ exec 3</tmp/probe; } 2>&1); then answer=opened; fi
	rm -f /tmp/probe
	echo "$number ${answer##*: }"
done`
	return e.answers(e.in(pod, container, script, numbers...), len(numbers))
}

func (e *env) answers(out string, n int) map[string]string {
	e.t.Helper()
	answers := map[string]string{}
	for line := range strings.Lines(out) {
		path, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		answers[path] = answer
	}
	if len(answers) != n {
		e.t.Fatalf("want %d answers, got:\n%s", n, out)
	}
	return answers
}

// foreignGPUs are the numbers, as openByNumber takes them, of the node's GPUs
// that are not among those seen.
func (e *env) foreignGPUs(seen []cluster.Seen) []string {
	e.t.Helper()
	own := map[string]bool{}
	for _, s := range seen {
		own[fmt.Sprintf("nvidia%d", e.gpu(dgx, s.GPU.UUID).Minor)] = true
	}
	out := e.on(dgx, "cd "+simulatedRoot+"/dev && stat -c '%n:0x%t:0x%T' nvidia[0-9]*")
	var foreign []string
	for _, number := range strings.Fields(out) {
		if name, _, _ := strings.Cut(number, ":"); !own[name] {
			foreign = append(foreign, number)
		}
	}
	if len(foreign) < 6 { // of eight GPUs, none of these containers has more than two
		e.t.Fatalf("want the GPUs of others, got %q", out)
	}
	return foreign
}

func TestContainerHasTheDriversLibraries(t *testing.T) {
	e := newEnv(t)
	e.template("mig", ask("mig-1g.10gb.cleave.dev"))
	pod := e.start(e.sleeper("libraries", dgx, "mig"))
	// Programs load libraries by their SONAME, which is a link that ldconfig makes.
	for _, soname := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		out := e.in(pod, mainContainer, `ldconfig -p | awk -v name="$1" '$1 == name {print $NF}' | xargs -r readlink -e`, soname)
		if !strings.Contains(out, ".so.") {
			t.Errorf("%s: the loader's cache leads to %q, want a file", soname, strings.TrimSpace(out))
		}
	}
	if got := strings.TrimSpace(e.in(pod, mainContainer, `echo "$NVIDIA_VISIBLE_DEVICES"`)); got != "void" {
		t.Errorf("NVIDIA_VISIBLE_DEVICES = %q, want void, so that an older runtime adds no GPUs", got)
	}
}
