// Package crd holds the definition of the RouteReflectorPool that clusters are given,
// and reads objects as an apiserver with that definition does: the same defaults, the
// same refusals.
package crd

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

//go:embed rrpool.io_routereflectorpools.yaml
var definition []byte

// rules are the definition as objects are held to it.
type rules struct {
	structural *schema.Structural
	values     validation.SchemaValidator
	relations  *cel.Validator
}

var load = sync.OnceValues(func() (*rules, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, fmt.Errorf("reading our own CRD: %w", err)
	}
	var props apiextensions.JSONSchemaProps
	in := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, &props, nil); err != nil {
		return nil, fmt.Errorf("reading our own CRD: %w", err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("reading our own CRD: %w", err)
	}
	values, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("reading our own CRD: %w", err)
	}
	return &rules{structural, values, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
})

// Default is the object that a user gets who writes nothing into it.
func Default() (*v1alpha1.RouteReflectorPool, error) {
	return Read([]byte("apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"))
}

// Complete fills in what the object leaves open.
func Complete(object *v1alpha1.RouteReflectorPool) (*v1alpha1.RouteReflectorPool, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("rendering the RouteReflectorPool: %w", err)
	}
	return Read(content)
}

// Read reads a RouteReflectorPool from YAML or JSON. What an apiserver would refuse,
// or silently drop, is an error that names every such field.
func Read(content []byte) (*v1alpha1.RouteReflectorPool, error) {
	r, err := load()
	if err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, fmt.Errorf("this is no YAML: %w", err)
	}
	var raw map[string]any
	if err := utiljson.Unmarshal(text, &raw); err != nil { // whole numbers as int64, which the rules ask for
		return nil, fmt.Errorf("this is no object: %w", err)
	}
	if err := isPool(raw); err != nil {
		return nil, err
	}
	unknown := pruning.PruneWithOptions(raw, r.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	var problems []error
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf("%s: there is no such field (kubectl explain routereflectorpool lists them)", path))
	}
	defaulting.Default(raw, r.structural)
	for _, p := range r.check(raw) {
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	out := &v1alpha1.RouteReflectorPool{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, out); err != nil {
		return nil, fmt.Errorf("reading the RouteReflectorPool: %w", err)
	}
	return out, nil
}

// isPool tells our kind from others.
func isPool(raw map[string]any) error {
	kind, _ := raw["kind"].(string)
	version, _ := raw["apiVersion"].(string)
	if want := v1alpha1.GroupVersion.String(); kind != "RouteReflectorPool" || version != want {
		return fmt.Errorf("this is kind %q of apiVersion %q: give a RouteReflectorPool of %s", kind, version, want)
	}
	return nil
}

func (r *rules) check(raw map[string]any) field.ErrorList {
	if errs := validation.ValidateCustomResource(nil, raw, r.values); len(errs) > 0 {
		return errs
	}
	errs, _ := r.relations.Validate(context.Background(), nil, r.structural, raw, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
