// Package rbac holds what the manager may do, as clusters are given it.
package rbac

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ServiceAccount is the name of the manager's, and of the roles that it is bound to.
const ServiceAccount = "rrpool-manager"

// Namespace is where these manifests put the manager.
const Namespace = "rrpool-system"

//go:embed role.yaml
var roles []byte

// Grant is a rule of one of the manager's roles. It holds in one namespace, or, where
// that is empty, in the whole cluster.
type Grant struct {
	Namespace string
	rbacv1.PolicyRule
}

// Grants are all that the manager is allowed, in the order of role.yaml. What it is
// allowed in its own namespace is given for the namespace named.
func Grants(namespace string) ([]Grant, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(roles), 4096)
	var out []Grant
	for {
		// A ClusterRole has the fields of a Role, and no namespace.
		var role rbacv1.Role
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading our own roles: %w", err)
		}
		if role.Namespace == Namespace {
			role.Namespace = namespace
		}
		for _, rule := range role.Rules {
			out = append(out, Grant{role.Namespace, rule})
		}
	}
}

// Right is one verb on one resource, "nodes/status" with the subresource: the least that
// can be given. Without a name it is about all objects.
type Right struct{ Namespace, Group, Resource, Name, Verb string }

// Rights takes a grant apart.
func (g Grant) Rights() []Right {
	names := g.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []Right
	for _, group := range g.APIGroups {
		for _, resource := range g.Resources {
			for _, name := range names {
				for _, verb := range g.Verbs {
					out = append(out, Right{g.Namespace, group, resource, name, verb})
				}
			}
		}
	}
	return out
}
