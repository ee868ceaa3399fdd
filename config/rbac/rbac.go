// Package rbac holds the manager's roles, and lists the rights that they grant.
package rbac

import (
	"bytes"
	_ "embed"
	"errors"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ServiceAccount is the name of the manager's ServiceAccount and of its roles.
const ServiceAccount = "rrpool-manager"

// Namespace is the manager's namespace in these manifests.
const Namespace = "rrpool-system"

//go:embed role.yaml
var roles []byte

// Right is one verb on one resource, which may include a subresource, as "nodes/status". If Namespace
// is empty, the right holds in the whole cluster. If Name is empty, it holds for all objects.
type Right struct{ Namespace, Group, Resource, Name, Verb string }

// Rights returns all rights of the manager, in the order of role.yaml, with namespace in place of the manager's default namespace.
func Rights(namespace string) []Right {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(roles), 4096)
	var out []Right
	for {
		// A ClusterRole is read as a Role: it has the same fields, and no namespace.
		var role rbacv1.Role
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return out
		}
		utilruntime.Must(err)
		if role.Namespace == Namespace {
			role.Namespace = namespace
		}
		for _, rule := range role.Rules {
			out = append(out, rightsOf(role.Namespace, rule)...)
		}
	}
}

func rightsOf(namespace string, rule rbacv1.PolicyRule) (out []Right) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					out = append(out, Right{namespace, group, resource, name, verb})
				}
			}
		}
	}
	return out
}
