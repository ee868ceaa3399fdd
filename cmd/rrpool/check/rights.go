package check

import (
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
)

// right is one thing that somebody may be allowed to do.
type right struct{ verb, group, resource, subresource, namespace, name string }

// String is the right as kubectl auth can-i would be asked for it, and where.
func (r right) String() string {
	out := r.verb + " " + r.resource
	if r.group != "" {
		out += "." + r.group
	}
	if r.subresource != "" {
		out += "/" + r.subresource
	}
	if r.name != "" {
		out += " " + r.name
	}
	if r.namespace != "" {
		out += " in namespace " + r.namespace
	}
	return out
}

func (r right) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
	}
}

// needed are the rights that the manager needs: config/rbac, taken apart.
func needed(namespace string) ([]right, error) {
	grants, err := rbac.Grants(namespace)
	if err != nil {
		return nil, fmt.Errorf("reading what the manager needs: %w", err)
	}
	var out []right
	for _, g := range grants {
		for _, r := range g.Rights() {
			resource, subresource, _ := strings.Cut(r.Resource, "/")
			out = append(out, right{r.Verb, r.Group, resource, subresource, r.Namespace, r.Name})
		}
	}
	return out, nil
}

// The groups of what installing writes.
const (
	groupRBAC       = "rbac.authorization.k8s.io"
	groupExtensions = "apiextensions.k8s.io"
	definitionName  = "routereflectorpools.rrpool.io"
)

// installing are the rights that kubectl apply needs to install rrpool, client-side or
// server-side, and those to ask for route reflectors then. key: a Secret with an API key
// belongs to it.
func installing(namespace string, key bool) ([]right, error) {
	grants, err := rbac.Grants(namespace)
	if err != nil {
		return nil, fmt.Errorf("reading what the manager needs: %w", err)
	}
	written := []right{
		{group: groupExtensions, resource: "customresourcedefinitions", name: definitionName},
		{resource: "namespaces", name: namespace},
		{resource: "serviceaccounts", namespace: namespace, name: rbac.ServiceAccount},
		{group: "apps", resource: "deployments", namespace: namespace, name: managerName},
		{group: groupRBAC, resource: "clusterroles", name: rbac.ServiceAccount},
		{group: groupRBAC, resource: "clusterrolebindings", name: rbac.ServiceAccount},
	}
	var in []string
	for _, g := range grants {
		if g.Namespace != "" && !slices.Contains(in, g.Namespace) {
			in = append(in, g.Namespace)
			for _, resource := range []string{"roles", "rolebindings"} {
				written = append(written, right{group: groupRBAC, resource: resource, namespace: g.Namespace, name: rbac.ServiceAccount})
			}
		}
	}
	var out []right
	for _, r := range written {
		for _, verb := range []string{"get", "create", "patch"} {
			r := r
			if r.verb = verb; verb == "create" {
				r.name = "" // a request that creates is authorized without a name
			}
			out = append(out, r)
		}
	}
	if key {
		out = append(out, right{verb: "create", resource: "secrets", namespace: namespace})
	}
	return append(out, right{verb: "create", group: v1alpha1.GroupVersion.Group, resource: "routereflectorpools"}), nil
}

// escalating are the rights to give away what one does not have.
func escalating() []right {
	var out []right
	for _, verb := range []string{"escalate", "bind"} {
		for _, resource := range []string{"clusterroles", "roles"} {
			out = append(out, right{verb: verb, group: groupRBAC, resource: resource})
		}
	}
	return out
}

// named are the rights as they are shown: what may be done to one thing, together.
func named(rights []right) []string {
	var things []right
	verbs := map[right][]string{}
	for _, r := range rights {
		thing := r
		thing.verb = ""
		if verbs[thing] == nil {
			things = append(things, thing)
		}
		verbs[thing] = append(verbs[thing], r.verb)
	}
	out := make([]string, 0, len(things))
	for _, thing := range things {
		one := thing
		one.verb = strings.Join(verbs[thing], ",")
		out = append(out, one.String())
	}
	return out
}
