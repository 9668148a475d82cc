package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleave-dra/cleave/hack/kind/store"
)

// record is what we know of a cluster that we made. It is written before the
// first container, so a cluster without a record is somebody else's.
type record struct {
	Settings   string // hash of everything that shaped the cluster
	Ready      bool   // creation went through to the end
	Kubeconfig string
	Others     []string // kubeconfigs that later runs asked for
}

// kubeconfigs are all files that the cluster was written into.
func (r *record) kubeconfigs() []string { return append([]string{r.Kubeconfig}, r.Others...) }

// DefaultKubeconfig is where the kubeconfig goes unless told otherwise.
func DefaultKubeconfig(s store.Store, name string) string {
	return s.Path("clusters", name+".kubeconfig")
}

func recordPath(s store.Store, name string) string { return s.Path("clusters", name+".json") }

// readRecord returns nil if we know of no such cluster.
func readRecord(s store.Store, name string) (*record, error) {
	text, err := os.ReadFile(recordPath(s, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of cluster %s: %w", name, err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("parse %s: %w", recordPath(s, name), err)
	}
	return &r, nil
}

func writeRecord(s store.Store, name string, r *record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record of cluster %s: %w", name, err)
	}
	path := recordPath(s, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder for clusters: %w", err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write record of cluster %s: %w", name, err)
	}
	return os.Rename(path+".new", path)
}

// Names lists the clusters that have a record.
func Names(s store.Store) ([]string, error) {
	paths, err := filepath.Glob(s.Path("clusters", "*.json"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return names, nil
}

// settings is the hash by which a cluster is recognised as what is asked for.
func settings(o Options, image Image) (string, error) {
	config, err := json.Marshal(kindConfig(o, image))
	if err != nil {
		return "", fmt.Errorf("encode kind configuration: %w", err)
	}
	return store.NewKey(string(config), networkLayout).String(), nil
}
