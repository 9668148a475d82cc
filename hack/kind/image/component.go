package image

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

// component is a set of commands that one `go build` makes, so that they share
// the compilation of what they have in common.
type component struct {
	name     string
	label    string
	dir      string   // module to build in, relative to the source folder
	inputs   []string // folders that count for the cache, relative to dir
	packages []string
	tags     string
	flags    string // linker flags besides -s -w
}

const kubernetes = "k8s.io/kubernetes"

// kubernetes is what the nodes run, and kubectl.
func (b *Builder) kubernetes() (component, error) {
	flags, err := b.kubernetesFlags()
	return component{
		name:  "kubernetes",
		label: "building Kubernetes (the first time takes about 10 minutes)",
		dir:   "image/kubernetes",
		packages: []string{
			kubernetes + "/cmd/kube-apiserver",
			kubernetes + "/cmd/kube-controller-manager",
			kubernetes + "/cmd/kube-proxy",
			kubernetes + "/cmd/kube-scheduler",
			kubernetes + "/cmd/kubeadm",
			kubernetes + "/cmd/kubectl",
			kubernetes + "/cmd/kubelet",
		},
		flags: flags,
	}, err
}

// kubectl alone, for machines that pull the node image.
func (b *Builder) kubectl() (component, error) {
	flags, err := b.kubernetesFlags()
	return component{
		name: "kubectl", label: "building kubectl", dir: "image/kubernetes",
		packages: []string{kubernetes + "/cmd/kubectl"}, flags: flags,
	}, err
}

// kubernetesFlags makes the binaries know their version; kubeadm and kind
// refuse to work without.
func (b *Builder) kubernetesFlags() (string, error) {
	version, err := b.required("image/kubernetes", kubernetes)
	if err != nil {
		return "", err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s",
		pkg, version, pkg, major, pkg, minor), nil
}

func etcd() component {
	return component{
		name: "etcd", label: "building etcd", dir: "image/etcd",
		packages: []string{"go.etcd.io/etcd/server/v3"},
	}
}

func (b *Builder) containerRuntime() (component, error) {
	const containerd = "github.com/containerd/containerd/v2"
	const plugins = "github.com/containernetworking/plugins/plugins/"
	version, err := b.required("image/runtime", containerd)
	return component{
		name: "runtime", label: "building containerd and the CNI plugins", dir: "image/runtime",
		packages: []string{
			containerd + "/cmd/containerd",
			containerd + "/cmd/containerd-shim-runc-v2",
			containerd + "/cmd/ctr",
			plugins + "ipam/host-local",
			plugins + "main/loopback",
			plugins + "main/ptp",
			plugins + "meta/portmap",
			"sigs.k8s.io/cri-tools/cmd/crictl",
		},
		tags:  "no_btrfs,no_devmapper,no_zfs",
		flags: fmt.Sprintf("-X %s/version.Version=%s", containerd, strings.TrimPrefix(version, "v")),
	}, err
}

func (b *Builder) helm() (component, error) {
	const module = "helm.sh/helm/v4"
	version, err := b.required("image/helm", module)
	return component{
		name: "helm", label: "building Helm", dir: "image/helm",
		packages: []string{module + "/cmd/helm"},
		flags:    fmt.Sprintf("-X %s/internal/version.version=%s", module, version),
	}, err
}

// small holds our own commands.
func small(name string, inputs ...string) component {
	c := component{name: name, label: "building " + name, dir: ".", inputs: inputs}
	c.packages = []string{"./" + inputs[0]}
	return c
}

// Bounded returns the path of the runtime wrapper for hosts that withhold
// capabilities.
func (b *Builder) Bounded(ctx context.Context) (string, error) {
	dir, err := b.compile(ctx, small("bounded", "bounded", "capability"))
	return filepath.Join(dir, "bounded"), err
}

// compile returns a folder with the commands of a component.
func (b *Builder) compile(ctx context.Context, c component) (string, error) {
	key, err := b.componentKey(c)
	if err != nil {
		return "", err
	}
	return b.Store.Build(ctx, "bin", c.name+"-"+key, func(dir string) error {
		args := []string{"go", "build", "-trimpath", "-v", "-ldflags", strings.TrimSpace("-s -w " + c.flags)}
		if c.tags != "" {
			args = append(args, "-tags", c.tags)
		}
		args = append(append(args, "-o", dir+"/"), c.packages...)
		return b.Run.Run(ctx, command.Spec{
			Label: c.label, Args: args, Dir: filepath.Join(b.Source, c.dir),
			Env: []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off"},
		})
	})
}

func (b *Builder) componentKey(c component) (string, error) {
	words := append([]string{runtime.GOOS, runtime.GOARCH, c.tags, c.flags}, c.packages...)
	key := store.NewKey(words...)
	inputs := c.inputs
	if inputs == nil {
		inputs = []string{"."}
	}
	for _, input := range inputs {
		if err := key.Files(filepath.Join(b.Source, c.dir, input), store.GoSources); err != nil {
			return "", err
		}
	}
	return key.String(), nil
}
