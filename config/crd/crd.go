// Package crd holds the definition of the RouteReflectorPool that clusters are given,
// and reads objects as an apiserver with that definition does: the same defaults, the
// same refusals.
package crd

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
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
	schema     apiextensionsv1.JSONSchemaProps
}

// load reads what is embedded: it can fail only in a build that no test has seen.
var load = sync.OnceValue(func() *rules {
	var crd apiextensionsv1.CustomResourceDefinition
	utilruntime.Must(yaml.Unmarshal(definition, &crd))
	var props apiextensions.JSONSchemaProps
	in := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	utilruntime.Must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, &props, nil))
	structural, err := schema.NewStructural(&props)
	utilruntime.Must(err)
	values, _, err := validation.NewSchemaValidator(&props)
	utilruntime.Must(err)
	return &rules{structural, values, cel.NewValidator(structural, true, celconfig.PerCallLimit), *in}
})

// Default is the object that a user gets who writes nothing into it.
func Default() *v1alpha1.RouteReflectorPool {
	out, err := Read([]byte("apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"))
	utilruntime.Must(err)
	return out
}

// Missing names the fields that the definition has here and lacks in another place.
func Missing(elsewhere *apiextensionsv1.CustomResourceValidation) []string {
	if elsewhere == nil || elsewhere.OpenAPIV3Schema == nil {
		return []string{"a schema"}
	}
	return missing(load().schema, *elsewhere.OpenAPIV3Schema, "")
}

func missing(here, there apiextensionsv1.JSONSchemaProps, path string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(here.Properties)) {
		if property, known := there.Properties[name]; known {
			out = append(out, missing(here.Properties[name], property, path+name+".")...)
		} else {
			out = append(out, path+name)
		}
	}
	return out
}

// Read reads the one RouteReflectorPool of a file, in YAML or JSON, as it will be once
// it is created: what the apiserver sets itself, such as the status, is left out. What an
// apiserver would refuse or silently drop is an error that names every such field, and so
// is anything else in the file. Rules about a change of a field are not checked.
func Read(content []byte) (*v1alpha1.RouteReflectorPool, error) {
	raw, others, err := split(content)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("there is also %s in it: give a file with the RouteReflectorPool alone", strings.Join(others, ", "))
	}
	if err := load().admit(raw); err != nil {
		return nil, err
	}
	out := &v1alpha1.RouteReflectorPool{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, out); err != nil {
		return nil, fmt.Errorf("reading the RouteReflectorPool: %w", err)
	}
	return out, nil
}

// split gives the RouteReflectorPool among the documents of a file, and names the others.
func split(content []byte) (pool map[string]any, others []string, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		raw, err := parse(document, err)
		if err != nil {
			return nil, nil, err
		}
		kind, _ := raw["kind"].(string)
		switch {
		case len(raw) == 0:
		case pool == nil && kind == "RouteReflectorPool" && raw["apiVersion"] == v1alpha1.GroupVersion.String():
			pool = raw
		default:
			others = append(others, fmt.Sprintf("%q of apiVersion %q", kind, raw["apiVersion"]))
		}
	}
	if pool == nil && len(others) > 0 {
		return nil, nil, fmt.Errorf("this is %s: give a RouteReflectorPool of %s", strings.Join(others, ", "), v1alpha1.GroupVersion)
	}
	if pool == nil {
		return nil, nil, fmt.Errorf("nothing is in it: give a RouteReflectorPool of %s", v1alpha1.GroupVersion)
	}
	return pool, others, nil
}

// parse reads one document. Whole numbers become int64, which the rules ask for.
func parse(document []byte, err error) (map[string]any, error) {
	if err != nil {
		return nil, fmt.Errorf("this is no YAML: %w", err)
	}
	if trimmed := bytes.TrimSpace(document); bytes.HasPrefix(trimmed, []byte("{")) && !json.Valid(trimmed) {
		decoder := json.NewDecoder(bytes.NewReader(trimmed))
		if one := json.RawMessage(nil); decoder.Decode(&one) == nil && decoder.More() {
			return nil, errors.New("there is something after the object: give a file with the RouteReflectorPool alone")
		}
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("this is no YAML: %w", err)
	}
	var raw map[string]any
	if err := utiljson.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("this is no object: %w", err)
	}
	return raw, nil
}

// admit does to an object what an apiserver does when it is created.
func (r *rules) admit(raw map[string]any) error {
	delete(raw, "status")
	var problems []error
	for _, path := range pruning.PruneWithOptions(raw, r.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		problems = append(problems, fmt.Errorf("%s: there is no such field (kubectl explain routereflectorpool lists them)", path))
	}
	problems = append(problems, metadata(raw)...)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	defaulting.Default(raw, r.structural)
	for _, p := range r.check(raw) {
		problems = append(problems, p)
	}
	return errors.Join(problems...)
}

// metadata refuses what an object cannot be named, labelled or owned like, and takes
// away what the apiserver sets.
func metadata(raw map[string]any) []error {
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(raw, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return []error{err}
	}
	var problems []error
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf("%s: there is no such field", path))
	}
	if meta == nil || meta.Name == "" {
		return append(problems, fmt.Errorf("metadata.name: it is missing: write %s", v1alpha1.SingletonName))
	}
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = nil, nil
	for _, p := range apivalidation.ValidateObjectMeta(meta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")) {
		problems = append(problems, p)
	}
	if err := objectmeta.SetObjectMeta(raw, meta); err != nil {
		problems = append(problems, err)
	}
	return problems
}

func (r *rules) check(raw map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, raw, r.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, raw)...)
	if len(errs) > 0 {
		return errs
	}
	errs, _ = r.relations.Validate(context.Background(), nil, r.structural, raw, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
