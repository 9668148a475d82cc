package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	missing := map[nodes.Node][]string{}
	for _, image := range images {
		id, err := command.Output(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", image)
		if err != nil {
			return fmt.Errorf("find image %s in Docker: %w", image, err)
		}
		for _, member := range members {
			// An error means that the node has no such image.
			if has, err := nodeutils.ImageID(member, image); err != nil || has != id {
				missing[member] = append(missing[member], image)
			}
		}
	}
	if len(missing) == 0 {
		c.log.Printf("all nodes have %s", strings.Join(images, ", "))
		return nil
	}
	return c.copyImages(ctx, images, missing)
}

func (c *Cluster) copyImages(ctx context.Context, images []string, missing map[nodes.Node][]string) error {
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
	for member := range missing {
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
