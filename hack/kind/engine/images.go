package engine

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cleave-dra/cleave/hack/kind/command"
)

// HasImage reports whether Docker has an image of that name.
func (e *Engine) HasImage(ctx context.Context, ref string) bool {
	_, err := e.ImageID(ctx, ref)
	return err == nil
}

// ImageID returns the identity of an image that Docker has.
func (e *Engine) ImageID(ctx context.Context, ref string) (string, error) {
	return command.Output(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", ref)
}

// LoadImage gives Docker an image from an archive, unless it is there.
func (e *Engine) LoadImage(ctx context.Context, ref, archive string) error {
	if e.HasImage(ctx, ref) {
		return nil
	}
	return e.Run.Run(ctx, command.Spec{
		Label: "loading " + ref + " into Docker", Args: []string{"docker", "load", "--input", archive},
	})
}

// Tag gives an image one more name.
func (e *Engine) Tag(ctx context.Context, ref, name string) error {
	_, err := command.Output(ctx, "docker", "tag", ref, name)
	return err
}

// Pull gets an image from its registry.
func (e *Engine) Pull(ctx context.Context, ref string) error {
	if e.HasImage(ctx, ref) {
		return nil
	}
	return e.Run.Run(ctx, command.Spec{Label: "pulling " + ref, Args: []string{"docker", "pull", ref}})
}

// RemoveImages removes the images of a repository that no container uses,
// except one that is named.
func (e *Engine) RemoveImages(ctx context.Context, repository, except string) error {
	refs, err := command.Output(ctx, "docker", "images", "--format", "{{.Repository}}:{{.Tag}}", repository)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, ref := range strings.Fields(refs) {
		if ref == except {
			continue
		}
		if _, err := command.Output(ctx, "docker", "rmi", ref); err != nil {
			e.Log.Printf("image %s stays, because it is in use", ref)
		}
	}
	return nil
}

// RegistryReachable reports quickly whether Docker Hub answers from here.
func RegistryReachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://registry-1.docker.io/v2/", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK || response.StatusCode == http.StatusUnauthorized
}
