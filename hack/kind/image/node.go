package image

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cleave-dra/cleave/hack/kind/command"
	"github.com/cleave-dra/cleave/hack/kind/store"
)

//go:embed files
var overlay embed.FS

const kindModule = "sigs.k8s.io/kind"

// parts are the folders that the node image is put together from.
type parts struct {
	kubernetes, etcd, runtime, pause string // commands
	debian                           string // rootfs.tar, and nft/ for kube-proxy
	kind                             string // kind's own sources
}

var nodeRootfs = rootfs{name: "node", packages: nodePackages, drop: undone, extract: extractNft}

// Node makes the node image and returns its name and its archive.
func (b *Builder) Node(ctx context.Context) (ref, archive string, err error) {
	key, err := b.nodeKey()
	if err != nil {
		return "", "", err
	}
	ref = "cleave-node:" + key
	dir, err := b.Store.Build(ctx, "images", "node-"+key, func(dir string) error {
		p, err := b.gather(ctx)
		if err != nil {
			return err
		}
		stop := b.Log.Watch("putting the node image together", nil)
		defer stop()
		return b.assemble(ctx, p, ref, dir)
	})
	return ref, filepath.Join(dir, "image.tar"), err
}

// nodeKey covers everything that goes into the node image, this program's own
// sources included.
func (b *Builder) nodeKey() (string, error) {
	components, err := b.nodeComponents()
	if err != nil {
		return "", err
	}
	words := []string{nodeRootfs.key()}
	for _, c := range components {
		key, err := b.componentKey(c)
		if err != nil {
			return "", err
		}
		words = append(words, key)
	}
	kindVersion, err := b.required(".", kindModule)
	if err != nil {
		return "", err
	}
	key := store.NewKey(append(words, kindVersion)...)
	err = key.Files(filepath.Join(b.Source, "image"), func(path string) bool {
		own := !strings.Contains(path, "/") && store.GoSources(path)
		return own || strings.HasPrefix(path, "files/")
	})
	return key.String(), err
}

// nodeComponents are the commands of a node, the quickest to build first.
func (b *Builder) nodeComponents() ([]component, error) {
	runtime, err := b.containerRuntime()
	if err != nil {
		return nil, err
	}
	kubernetes, err := b.kubernetes()
	return []component{small("pause", "image/pause"), etcd(), runtime, kubernetes}, err
}

// gather builds what is missing. Debian packages come over the network while
// the compiler keeps the processors busy.
func (b *Builder) gather(ctx context.Context) (parts, error) {
	components, err := b.nodeComponents()
	if err != nil {
		return parts{}, err
	}
	var debian string
	dirs := map[string]string{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		debian, err = b.debian(groupCtx, nodeRootfs)
		return err
	})
	group.Go(func() error {
		for _, c := range components {
			dir, err := b.compile(groupCtx, c)
			if err != nil {
				return err
			}
			dirs[c.name] = dir
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return parts{}, err
	}
	kind, err := b.moduleDir(ctx, kindModule)
	return parts{
		kubernetes: dirs["kubernetes"], etcd: dirs["etcd"], runtime: dirs["runtime"], pause: dirs["pause"],
		debian: debian, kind: kind,
	}, err
}

// moduleDir finds the sources of a module that this program is built with.
func (b *Builder) moduleDir(ctx context.Context, module string) (string, error) {
	dir, err := command.Output(ctx, "go", "list", "-C", b.Source, "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("find sources of %s: %w", module, err)
	}
	return dir, nil
}

func (b *Builder) assemble(ctx context.Context, p parts, ref, dir string) error {
	temp, err := b.Store.Temp("layers")
	if err != nil {
		return err
	}
	defer func() { _ = store.RemoveTree(temp) }()
	version, err := b.required("image/kubernetes", kubernetes)
	if err != nil {
		return err
	}
	inner, err := innerImages(ctx, p, version, temp)
	if err != nil {
		return err
	}
	top, err := nodeLayer(p, inner, version)
	if err != nil {
		return err
	}
	upper := filepath.Join(temp, "node.tar")
	if err := top.write(upper); err != nil {
		return err
	}
	return writeArchive(filepath.Join(dir, "image.tar"), []picture{{
		ref: ref,
		config: runConfig{
			Env:        []string{searchPath, "container=docker"},
			Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
			StopSignal: "SIGRTMIN+3", // systemd takes SIGTERM for something else
		},
		layers: []string{filepath.Join(p.debian, "rootfs.tar"), upper},
	}})
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nodeLayer is what lies on top of Debian.
func nodeLayer(p parts, inner inner, version string) (*layer, error) {
	l := newLayer()
	if err := addKind(l, filepath.Join(p.kind, "images/base/files")); err != nil {
		return nil, err
	}
	if err := addOverlay(l, inner.pause); err != nil {
		return nil, err
	}
	for _, name := range []string{"kubeadm", "kubectl", "kubelet"} {
		l.program("usr/bin/"+name, filepath.Join(p.kubernetes, name))
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "crictl"} {
		l.program("usr/local/bin/"+name, filepath.Join(p.runtime, name))
	}
	for _, name := range []string{"host-local", "loopback", "portmap", "ptp"} {
		l.program("opt/cni/bin/"+name, filepath.Join(p.runtime, name))
	}
	for _, unit := range []string{"containerd", "kubelet", "undo-mount-hacks", "cleave-images", "cleave-network"} {
		name := unit + ".service"
		l.link("etc/systemd/system/multi-user.target.wants/"+name, "/etc/systemd/system/"+name)
	}
	for _, unit := range masked {
		l.link("etc/systemd/system/"+unit, "/dev/null")
	}
	l.file("kind/images/node.tar", inner.node)
	l.file("kind/images/control-plane.tar", inner.controlPlane)
	l.text("kind/version", version+"\n")
	l.text("etc/systemd/journald.conf.d/cleave.conf", "[Journal]\nReadKMsg=no\n")
	l.dir("etc/kubernetes/manifests")
	l.dir("etc/cdi")
	return l, nil
}

// addOverlay adds the files of this folder's files/.
func addOverlay(l *layer, pauseRef string) error {
	return fs.WalkDir(overlay, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := overlay.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "files/")
		s := source{text: []byte(strings.ReplaceAll(string(text), "@PAUSE@", pauseRef)), mode: 0o644}
		if strings.HasPrefix(name, "usr/local/bin/") {
			s.mode = 0o755
		}
		l.put(name, s)
		return nil
	})
}

// addKind adds what kind itself puts into its node images: the entrypoint, the
// units and the settings that its library counts on.
func addKind(l *layer, root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := source{path: path, mode: 0o644}
		switch {
		case strings.HasPrefix(name, "LICENSES/"), name == "etc/containerd/config.toml":
			return nil
		case strings.HasPrefix(name, "usr/local/bin/"), strings.HasPrefix(name, "kind/bin/"):
			s.mode = 0o755
		case name == "etc/systemd/system/containerd.service":
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read kind's containerd unit: %w", err)
			}
			s = source{text: []byte(withoutOOMScore(string(text))), mode: 0o644}
		}
		l.put(filepath.ToSlash(name), s)
		return nil
	})
}

// withoutOOMScore drops the negative OOM score of a unit: the host may withhold
// the capability that it takes, and then systemd does not start the unit.
func withoutOOMScore(unit string) string {
	var kept strings.Builder
	for line := range strings.Lines(unit) {
		if !strings.HasPrefix(line, "OOMScoreAdjust=") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
