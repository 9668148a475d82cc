package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Parse splits a manifest into its objects.
func Parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read object %d of the manifest: %w", len(objects)+1, err)
		}
		if len(obj.Object) > 0 { // a document of comments only
			objects = append(objects, obj)
		}
	}
}

// Create creates objects in a namespace, as `kubectl create -n namespace` does;
// unknown fields are errors.
func (c *Cluster) Create(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("create %s %s: %w", gvk.Kind, obj.GetName(), err)
		}
		strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		_, err = c.Dynamic.Resource(mapping.Resource).Namespace(namespace).Create(ctx, obj, strict)
		if err != nil {
			return fmt.Errorf("create %s %s/%s: %w", gvk.Kind, namespace, obj.GetName(), err)
		}
	}
	return nil
}
