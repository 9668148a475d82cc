package image

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// inner are the images inside the node image.
type inner struct {
	node, controlPlane string // archives: for all nodes, and for control planes besides
	pause              string // name of the sandbox image
}

// innerImages makes the images of the control plane: one static program each,
// under the names that kubeadm asks for.
func innerImages(ctx context.Context, p parts, version, temp string) (inner, error) {
	listed, err := command.Output(ctx, filepath.Join(p.kubernetes, "kubeadm"), "config", "images", "list",
		"--kubernetes-version", version)
	if err != nil {
		return inner{}, fmt.Errorf("ask kubeadm which images it needs: %w", err)
	}
	refs := byName(listed)
	programs := map[string]string{
		"etcd":                    p.etcd,
		"kube-apiserver":          p.kubernetes,
		"kube-controller-manager": p.kubernetes,
		"kube-proxy":              p.kubernetes,
		"kube-scheduler":          p.kubernetes,
		"pause":                   p.pause,
	}
	made := map[string]picture{}
	for name, dir := range programs {
		ref, ok := refs[name]
		if !ok {
			return inner{}, fmt.Errorf("kubeadm lists no image for %s:\n%s", name, listed)
		}
		l := newLayer()
		binary := name
		if name == "etcd" {
			binary = "server" // what go build calls go.etcd.io/etcd/server/v3
		}
		l.program("usr/local/bin/"+name, filepath.Join(dir, binary))
		if name == "kube-proxy" {
			if err := addTree(l, filepath.Join(p.debian, "nft")); err != nil {
				return inner{}, err
			}
		}
		tar := filepath.Join(temp, name+".tar")
		if err := l.write(tar); err != nil {
			return inner{}, err
		}
		made[name] = picture{
			ref: ref, layers: []string{tar},
			config: runConfig{Env: []string{searchPath}, Entrypoint: []string{"/usr/local/bin/" + name}},
		}
	}
	result := inner{
		node: filepath.Join(temp, "images-node.tar"), controlPlane: filepath.Join(temp, "images-control-plane.tar"),
		pause: refs["pause"],
	}
	if err := writeArchive(result.node, []picture{made["pause"], made["kube-proxy"]}); err != nil {
		return inner{}, err
	}
	return result, writeArchive(result.controlPlane, []picture{
		made["etcd"], made["kube-apiserver"], made["kube-controller-manager"], made["kube-scheduler"],
	})
}

// byName maps "registry.k8s.io/etcd:3.7.0-0" to its last path element, "etcd".
func byName(list string) map[string]string {
	refs := map[string]string{}
	for _, ref := range strings.Fields(list) {
		name, _, _ := strings.Cut(path.Base(ref), ":")
		refs[name] = ref
	}
	return refs
}

// extractNft keeps the nft program, which kube-proxy runs, with its libraries.
func extractNft(root, into string) error {
	paths, err := closure(root, "/usr/sbin/nft")
	if err != nil {
		return err
	}
	for _, name := range paths {
		real, err := resolve(root, name)
		if err != nil {
			return err
		}
		if err := copyTo(real, filepath.Join(into, "nft", name)); err != nil {
			return err
		}
	}
	return nil
}

func copyTo(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Close()
}

// addTree adds all files below a folder as programs.
func addTree(l *layer, root string) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		l.program(filepath.ToSlash(name), file)
		return nil
	})
}
