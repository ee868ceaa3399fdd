// Package crd holds the CRD of the RouteReflectorPool. It reads objects as an apiserver
// with this CRD does: it sets the same defaults and refuses the same objects.
package crd

import (
	"bufio"
	"bytes"
	"cmp"
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

// rules are what the CRD requires: its schema, and its CEL rules (relations).
type rules struct {
	structural *schema.Structural
	values     validation.SchemaValidator
	relations  *cel.Validator
	schema     apiextensionsv1.JSONSchemaProps
}

// load parses the embedded CRD. It panics if the CRD is invalid, which the tests would show.
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

// Default returns a RouteReflectorPool with all defaults.
func Default() *v1alpha1.RouteReflectorPool {
	out, err := Read([]byte("apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"))
	utilruntime.Must(err)
	return out
}

// Missing returns the fields that the embedded CRD has and the schema elsewhere lacks.
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

// Read parses a file with one RouteReflectorPool and nothing else, in YAML or JSON. It returns the object as the
// apiserver would store it, but without what the apiserver sets itself, such as the status. If the apiserver
// would refuse or drop fields, the error names all of them. Rules about a change of a field are not checked.
func Read(content []byte) (*v1alpha1.RouteReflectorPool, error) {
	raw, err := alone(content)
	if err != nil {
		return nil, err
	}
	delete(raw, "status")
	out := &v1alpha1.RouteReflectorPool{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, out, true)
	if runtime.IsStrictDecodingError(err) { // for other errors the checks below say more
		return nil, fmt.Errorf("%w (kubectl explain routereflectorpool lists the fields)", err)
	}
	problems := apivalidation.ValidateObjectMeta(&out.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	defaulting.Default(raw, load().structural)
	if problems = append(problems, load().check(raw)...); len(problems) > 0 {
		return nil, problems.ToAggregate() //nolint:wrapcheck // each names its field
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, out); err != nil {
		return nil, fmt.Errorf("reading the RouteReflectorPool: %w", err)
	}
	out.DeletionTimestamp, out.DeletionGracePeriodSeconds = nil, nil
	return out, nil
}

// alone returns the RouteReflectorPool of a file, and an error if the file contains anything else.
func alone(content []byte) (pool map[string]any, err error) {
	var found []string
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		raw, err := parse(document, err)
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 {
			pool, found = raw, append(found, fmt.Sprintf("%v of apiVersion %v", raw["kind"], raw["apiVersion"]))
		}
	}
	if want := "RouteReflectorPool of apiVersion " + v1alpha1.GroupVersion.String(); !slices.Equal(found, []string{want}) {
		return nil, fmt.Errorf("give a file with one %s alone: this has %s", want, cmp.Or(strings.Join(found, ", "), "nothing"))
	}
	return pool, nil
}

// parse parses one document. Whole numbers become int64, as the rules need them.
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

func (r *rules) check(raw map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, raw, r.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, raw)...)
	if len(errs) > 0 {
		return errs
	}
	errs, _ = r.relations.Validate(context.Background(), nil, r.structural, raw, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
