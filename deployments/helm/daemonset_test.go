package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// nodePlugin is the DaemonSet of cleave-node.
func nodePlugin(t *testing.T, args ...string) *appsv1.DaemonSet {
	t.Helper()
	for _, ds := range pick[*appsv1.DaemonSet](render(t, args...)) {
		if ds.Labels["app.kubernetes.io/component"] == "node" {
			return ds
		}
	}
	t.Fatal("the chart rendered no DaemonSet of the node plugin")
	return nil
}

func TestNothingReachesIntoTheHostsNetwork(t *testing.T) {
	for name, args := range combinations {
		t.Run(name, func(t *testing.T) {
			for _, ds := range pick[*appsv1.DaemonSet](render(t, args...)) {
				pod := ds.Spec.Template.Spec
				if pod.HostNetwork || pod.HostPID || pod.HostIPC {
					t.Errorf("%s shares the host's network, PIDs or IPC", ds.Name)
				}
				for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
					for _, port := range c.Ports {
						if port.HostPort != 0 {
							t.Errorf("%s, container %s: hostPort %d", ds.Name, c.Name, port.HostPort)
						}
					}
				}
			}
		})
	}
}

// flags are those of cleave-node, by name.
func flags(t *testing.T, ds *appsv1.DaemonSet) map[string]string {
	t.Helper()
	byName := map[string]string{}
	for _, arg := range ds.Spec.Template.Spec.Containers[0].Args {
		name, value, found := strings.Cut(arg, "=")
		if !found {
			t.Errorf("argument %q has no value", arg)
		}
		byName[name] = value
	}
	return byName
}

// hostPath says which folder of the host lies under a path of the container, or "".
func hostPath(ds *appsv1.DaemonSet, path string) string {
	pod := ds.Spec.Template.Spec
	best, host := "", ""
	for _, mount := range pod.Containers[0].VolumeMounts {
		rest, under := strings.CutPrefix(path, mount.MountPath)
		if !under || len(mount.MountPath) < len(best) || (rest != "" && rest[0] != '/') {
			continue
		}
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name {
				best, host = mount.MountPath, strings.TrimSuffix(volume.HostPath.Path, "/")+rest
			}
		}
	}
	return host
}

func TestRoots(t *testing.T) {
	// The host's folders behind those that the flags name; "" is the container's own.
	type roots struct{ Driver, HostDriver, Dev, Proc, Sys string }
	tests := map[string]struct {
		args []string
		want roots
	}{
		"driver of the distribution": {
			want: roots{Driver: "/usr", HostDriver: "/", Dev: "/dev", Proc: "/proc", Sys: "/sys"},
		},
		"without NICs": {
			args: []string{"--set", "nics.enabled=false"},
			want: roots{Driver: "/usr", HostDriver: "/", Dev: "/dev"},
		},
		"driver of the operator": {
			args: []string{"--set", "driverRoot=/run/nvidia/driver,devRoot=/"},
			want: roots{Driver: "/run/nvidia/driver/usr", HostDriver: "/run/nvidia/driver", Dev: "/dev", Proc: "/proc", Sys: "/sys"},
		},
		"all elsewhere": {
			args: []string{"--set", "driverRoot=/a,devRoot=/b,procRoot=/c,sysRoot=/d/sys"},
			want: roots{Driver: "/a/usr", HostDriver: "/a", Dev: "/b/dev", Proc: "/c", Sys: "/d/sys"},
		},
		"simulated": {
			args: []string{"--set", "simulated.enabled=true,simulated.hostDir=/sim"},
			want: roots{Driver: "/sim/root/usr", HostDriver: "/sim/root", Dev: "/sim/root/dev", Proc: "/sim/root/proc", Sys: "/sim/root/sys"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ds := nodePlugin(t, tc.args...)
			flag := flags(t, ds)
			got := roots{
				Driver:     hostPath(ds, flag["--driver-root"]+"/usr"),
				HostDriver: flag["--host-driver-root"],
				Dev:        hostPath(ds, flag["--dev-root"]+"/dev"),
				Proc:       hostPath(ds, flag["--proc-root"]),
				Sys:        hostPath(ds, flag["--sys-root"]),
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("roots (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNICFlags(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string // of the arguments that are about NICs
		dev  string   // what lies under /dev/infiniband
	}{
		"default":   {want: []string{"--nics=true", "--nic-sharing=none", "--topology-pairs=false"}, dev: "/dev/infiniband"},
		"none":      {args: combinations["no NICs"], want: []string{"--nics=false", "--nic-sharing=none", "--topology-pairs=false"}},
		"simulated": {args: combinations["kind"], want: []string{"--nics=true", "--nic-sharing=none", "--topology-pairs=false"}},
		"shared": {args: combinations["shared NICs"], dev: "/dev/infiniband", want: []string{"--nics=true", "--nic-sharing=bandwidth",
			"--topology-pairs=false"}},
		// $ is the kubelet's, and written twice.
		"filtered": {args: combinations["filtered NICs"], dev: "/dev/infiniband", want: []string{"--nics=true", "--nic-sharing=none",
			`--nic-filter=device.attributes["cleave.dev"].ifName.matches("^ib(0|1)$$") && true: 'x'`, "--topology-pairs=false"}},
		"pairs": {args: combinations["pairs"], dev: "/dev/infiniband", want: []string{"--nics=true", "--nic-sharing=none", "--topology-pairs=true",
			"--rail=0000:18:00.0=0", "--rail=0000:5d:00.0=1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ds := nodePlugin(t, tc.args...)
			var got []string
			for _, arg := range ds.Spec.Template.Spec.Containers[0].Args {
				if strings.HasPrefix(arg, "--nic") || strings.HasPrefix(arg, "--topology") || strings.HasPrefix(arg, "--rail") {
					got = append(got, arg)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if dev := hostPath(ds, "/dev/infiniband"); dev != tc.dev {
				t.Errorf("/dev/infiniband is the host's %q, want %q", dev, tc.dev)
			}
		})
	}
}

// The kubelet, the container runtime and the plugin hand each other paths, so a
// folder has the same path inside and outside.
func TestSharedFoldersHaveOnePath(t *testing.T) {
	ds := nodePlugin(t, "--set", "kubeletDir=/mnt/kubelet,driverName=gpu.example.com,cdiDir=/etc/cdi")
	want := map[string]string{
		"--kubelet-registrar-dir": "/mnt/kubelet/plugins_registry",
		"--plugin-dir":            "/mnt/kubelet/plugins/gpu.example.com",
		"--cdi-dir":               "/etc/cdi",
		"--nvidia-cdi-hook-path":  "/mnt/kubelet/plugins/gpu.example.com/nvidia-cdi-hook",
	}
	for name, path := range want {
		if got := flags(t, ds)[name]; got != path {
			t.Errorf("%s=%s, want %s", name, got, path)
		}
		if got := hostPath(ds, path); got != path {
			t.Errorf("%s: the container's %s is the host's %q", name, path, got)
		}
	}
}

func TestHookIsCopiedUnlessTheHostHasOne(t *testing.T) {
	ds := nodePlugin(t)
	init := ds.Spec.Template.Spec.InitContainers
	if len(init) != 1 || init[0].Args != nil || init[0].Command[len(init[0].Command)-1] != "/var/lib/kubelet/plugins/cleave.dev" {
		t.Errorf("the hook is not copied to the plugin's folder: %+v", init)
	}
	ds = nodePlugin(t, "--set", "nvidiaCDIHookPath=/usr/bin/nvidia-cdi-hook")
	if n := len(ds.Spec.Template.Spec.InitContainers); n != 0 {
		t.Errorf("%d init containers although the host has the hook", n)
	}
	if got := flags(t, ds)["--nvidia-cdi-hook-path"]; got != "/usr/bin/nvidia-cdi-hook" {
		t.Errorf("--nvidia-cdi-hook-path=%s", got)
	}
}

// Real and simulated hardware never meet on a node, whatever affinity is asked for.
func TestSimulatedNodes(t *testing.T) {
	for name, args := range combinations {
		t.Run(name, func(t *testing.T) {
			var servers []string
			want := corev1.NodeSelectorOpDoesNotExist
			for _, ds := range pick[*appsv1.DaemonSet](render(t, args...)) {
				if server, ok := ds.Spec.Template.Spec.NodeSelector["cleave.dev/simulated"]; ok {
					servers = append(servers, server)
					want = corev1.NodeSelectorOpExists
				}
			}
			if name == "kind" && !slices.Equal(servers, []string{"dgx-h100", "mixed"}) {
				t.Errorf("simulators for servers %v", servers)
			}
			terms := nodePlugin(t, args...).Spec.Template.Spec.Affinity.NodeAffinity.
				RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			for i, term := range terms {
				if !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
					return r.Key == "cleave.dev/simulated" && r.Operator == want
				}) {
					t.Errorf("term %d of the node affinity lacks cleave.dev/simulated %s: %+v", i, want, term)
				}
			}
		})
	}
}
