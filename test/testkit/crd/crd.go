// Package crd checks custom resources as the API server does, without one: with the code
// that it runs, from the files that the chart installs.
package crd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Definition is a CustomResourceDefinition with one version.
type Definition struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// Load reads a definition and validates it as the API server does when it is created,
// what its CEL rules may cost included.
func Load(path string) (*Definition, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", path, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert definition %s: %w", path, err)
	}
	internal.Status.StoredVersions = []string{v1.Spec.Versions[0].Name}
	if err := crdvalidation.ValidateCustomResourceDefinition(context.Background(), &internal).ToAggregate(); err != nil {
		return nil, fmt.Errorf("definition %s: %w", path, err)
	}
	root := internal.Spec.Validation
	if root == nil {
		root = internal.Spec.Versions[0].Schema
	}
	d := &Definition{}
	if d.structural, err = schema.NewStructural(root.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("definition %s: %w", path, err)
	}
	if d.validator, _, err = validation.NewSchemaValidator(root.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("definition %s: %w", path, err)
	}
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d, nil
}

// Validate tells what the API server would refuse of a new object, unknown fields
// included, as with kubectl's strict validation.
func (d *Definition) Validate(ctx context.Context, object map[string]any) error {
	var errs []error
	for _, unknown := range pruning.PruneWithOptions(object, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		errs = append(errs, fmt.Errorf("unknown field %s", unknown))
	}
	defaulting.Default(object, d.structural)
	var list field.ErrorList
	list = append(list, validation.ValidateCustomResource(nil, object, d.validator)...)
	list = append(list, objectmeta.Validate(ctx, nil, object, d.structural, true)...)
	list = append(list, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(list) == 0 {
		rules, _ := d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
		list = append(list, rules...)
	}
	return errors.Join(append(errs, list.ToAggregate())...)
}
