package check

import (
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

const applyDefinition = "kubectl apply --server-side -k config/crd"

// definition: the kind exists, in the version that this program speaks.
func definition(f facts) *Result {
	d := f.own.definition
	switch {
	case d.hidden != "" && f.own.served:
		return unseen("the RouteReflectorPool is known, but its definition", d.hidden)
	case d.hidden != "":
		return unseen("whether rrpool's CRD is installed", d.hidden)
	case !d.found && f.pre:
		return note("rrpool's CRD is not installed yet")
	case !d.found:
		return fail("rrpool's CRD %s is not installed", definitionName).do("install it: %s", applyDefinition)
	}
	i := slices.IndexFunc(d.value.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version
	})
	switch {
	case i < 0 || !d.value.Spec.Versions[i].Served:
		return fail("rrpool's CRD does not serve version %s", v1alpha1.GroupVersion.Version).do("install that of this version: %s", applyDefinition)
	case !established(d.value):
		return fail("rrpool's CRD is not established: %s", refusal(d.value)).do("correct what it says, and apply it again: %s", applyDefinition)
	}
	if missing := missingFields(d.value.Spec.Versions[i].Schema); len(missing) > 0 {
		return fail("rrpool's CRD is of an older version: it does not have %s", iostreams.Few(missing)).do("install that of this version: %s", applyDefinition)
	}
	return fine("rrpool's CRD serves %s", v1alpha1.GroupVersion)
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func refusal(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range d.Status.Conditions {
		if c.Status != apiextensionsv1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return "the apiserver has not said why"
}

// missingFields are fields that this program sets by default and the definition lacks.
func missingFields(in *apiextensionsv1.CustomResourceValidation) []string {
	if in == nil || in.OpenAPIV3Schema == nil {
		return []string{"spec"}
	}
	object, err := crd.Default()
	if err != nil {
		return nil
	}
	var fields map[string]any
	content, err := json.Marshal(object.Spec)
	if err == nil {
		err = json.Unmarshal(content, &fields)
	}
	if err != nil {
		return nil
	}
	out := lacking(in.OpenAPIV3Schema.Properties["spec"], fields, "spec")
	slices.Sort(out)
	return out
}

func lacking(schema apiextensionsv1.JSONSchemaProps, fields map[string]any, path string) []string {
	var out []string
	for name, value := range fields {
		property, known := schema.Properties[name]
		inner, nested := value.(map[string]any)
		switch {
		case !known:
			out = append(out, path+"."+name)
		case nested:
			out = append(out, lacking(property, inner, path+"."+name)...)
		}
	}
	return out
}
