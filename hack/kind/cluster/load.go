package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// Load copies images from Docker into the nodes that lack them.
func (c *Cluster) Load(ctx context.Context, name string, images []string) error {
	members, err := c.kind.ListInternalNodes(name)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if len(members) == 0 {
		return fmt.Errorf("there is no cluster %q; make it with `up`", name)
	}
	ids := map[string]string{}
	for _, image := range images {
		if ids[image], err = command.Output(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", image); err != nil {
			return fmt.Errorf("find image %s in Docker: %w", image, err)
		}
	}
	missing := lacking(members, ids)
	if len(missing) == 0 {
		c.log.Printf("all nodes have %s", strings.Join(images, ", "))
		return nil
	}
	return c.copyImages(ctx, images, missing)
}

// lacking lists the nodes that do not have all images, by name and identity.
func lacking(members []nodes.Node, ids map[string]string) []nodes.Node {
	lacks := make([]bool, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() {
			for image, id := range ids {
				// An error means that the node has no such image.
				if has, err := nodeutils.ImageID(member, image); err != nil || has != id {
					lacks[i] = true
				}
			}
		})
	}
	group.Wait()
	var missing []nodes.Node
	for i, member := range members {
		if lacks[i] {
			missing = append(missing, member)
		}
	}
	return missing
}

func (c *Cluster) copyImages(ctx context.Context, images []string, missing []nodes.Node) error {
	defer c.log.Watch("loading "+strings.Join(images, ", ")+" into the nodes", nil)()
	dir, err := c.store.Temp("load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "images.tar")
	save := append([]string{"docker", "save", "--output", archive}, images...)
	if _, err := command.Output(ctx, save...); err != nil {
		return fmt.Errorf("save images: %w", err)
	}
	var group errgroup.Group
	for _, member := range missing {
		group.Go(func() error {
			file, err := os.Open(archive)
			if err != nil {
				return fmt.Errorf("open saved images: %w", err)
			}
			defer file.Close()
			if err := nodeutils.LoadImageArchive(member, file); err != nil {
				return fmt.Errorf("load images into %s: %w", member, err)
			}
			return nil
		})
	}
	return group.Wait()
}
