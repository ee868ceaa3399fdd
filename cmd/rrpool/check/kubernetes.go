package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
)

// oldest is the first Kubernetes whose apiserver knows every field of our CRD:
// validation rules have a fieldPath since then.
var oldest = version.MustParseGeneric("1.28")

func kubernetesVersion(f facts) *Result {
	is, err := version.ParseGeneric(f.version)
	switch {
	case err != nil:
		return unseen("the version of Kubernetes", fmt.Sprintf("the apiserver says it is %q", f.version))
	case is.LessThan(oldest):
		return fail("this is Kubernetes %s, and rrpool needs %s or newer", f.version, oldest).
			do("upgrade the cluster: older apiservers do not know all fields of rrpool's CRD")
	}
	return fine("Kubernetes %s", f.version)
}

func visible(f facts) *Result {
	if f.snapshot == nil {
		return fail("you may not see what the manager looks at: %s", f.blind).
			do("use a context whose user may list and watch Nodes and Calico's objects: the checks of Calico, of the nodes and of the provider need it")
	}
	return fine("nodes and Calico's objects can be seen: %s", iostreams.Number(len(f.snapshot.Cluster.Nodes), "node"))
}

// result is the same for every question about rights: what is asked for, what it means to
// lack some of them, and what to do then.
func (a answer) result(question, lack, all, remedy string) *Result {
	switch {
	case a.hidden != "":
		return unseen(question, a.hidden)
	case len(a.lacking) > 0:
		names := named(a.lacking)
		return fail(lack+": %s", len(a.lacking), a.asked, iostreams.Few(names)).also(names[min(iostreams.Named, len(names)):]...).do("%s", remedy)
	}
	return fine(all, a.asked)
}

func installRights(f facts) *Result {
	return f.installRights.result("whether you may install rrpool", "you lack %d of %d rights that installing needs",
		"you may install rrpool: all %d rights that kubectl apply needs", "ask a cluster administrator to install it, or ask for these rights")
}

// escalation: an apiserver lets users give away only rights that they have.
func escalation(f facts) *Result {
	return f.giverRights.result("whether you may give the manager its rights", "you lack %d of the %d rights that you would give the manager",
		"you may give the manager its %d rights",
		"Kubernetes lets users give away only rights that they have: ask a cluster administrator to apply config/rbac, or ask for the verbs escalate and bind on clusterroles and roles")
}

func managerRights(f facts) *Result {
	if f.account.hidden == "" && !f.account.found {
		return fail("there is no ServiceAccount %s in namespace %s", rbac.ServiceAccount, f.namespace).do("%s", installFirst)
	}
	return f.managerRights.result("whether the manager may do its work", "the manager lacks %d of the %d rights that it needs",
		"the manager may do all %d things that it needs", "apply its roles again: kubectl apply --server-side -k config/rbac")
}

// named are the rights as they are shown: all verbs for one thing together.
func named(rights []rbac.Right) []string {
	var things []string
	verbs := map[string][]string{}
	for _, r := range rights {
		thing := strings.TrimSpace(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String() + " " + r.Name)
		if r.Namespace != "" {
			thing += " in namespace " + r.Namespace
		}
		if verbs[thing] == nil {
			things = append(things, thing)
		}
		verbs[thing] = append(verbs[thing], r.Verb)
	}
	for i, thing := range things {
		things[i] = strings.Join(verbs[thing], ",") + " " + thing
	}
	return things
}

const (
	groupRBAC      = "rbac.authorization.k8s.io"
	definitionName = "routereflectorpools.rrpool.io"
)

// installing are the rights that kubectl apply needs to install rrpool, client-side or
// server-side, and those to ask for route reflectors then; with a Secret for the key if any.
func installing(namespace string, needs []rbac.Right, key bool) []rbac.Right {
	const account = rbac.ServiceAccount
	written := []rbac.Right{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: definitionName},
		{Resource: "namespaces", Name: namespace},
		{Namespace: namespace, Resource: "serviceaccounts", Name: account},
		{Namespace: namespace, Group: "apps", Resource: "deployments", Name: status.ManagerName},
		{Group: groupRBAC, Resource: "clusterroles", Name: account},
		{Group: groupRBAC, Resource: "clusterrolebindings", Name: account},
	}
	for _, r := range needs {
		role := rbac.Right{Namespace: r.Namespace, Group: groupRBAC, Resource: "roles", Name: account}
		if r.Namespace != "" && !slices.Contains(written, role) {
			written = append(written, role, rbac.Right{Namespace: r.Namespace, Group: groupRBAC, Resource: "rolebindings", Name: account})
		}
	}
	var out []rbac.Right
	for _, r := range written {
		get, create, patch := r, r, r
		get.Verb, create.Verb, patch.Verb = "get", "create", "patch"
		create.Name = "" // a request that creates is authorized without a name
		out = append(out, get, create, patch)
	}
	if key {
		out = append(out, rbac.Right{Verb: "create", Resource: "secrets", Namespace: namespace})
	}
	return append(out, rbac.Right{Verb: "create", Group: v1alpha1.GroupVersion.Group, Resource: "routereflectorpools"})
}

// gatherRights asks who may do what.
func (g *gatherer) gatherRights(ctx context.Context, needs []rbac.Right) {
	if !g.pre {
		g.managerRights = g.lacks(ctx, needs, serviceAccount(g.namespace, rbac.ServiceAccount))
		return
	}
	g.installRights = g.lacks(ctx, installing(g.namespace, needs, g.iks() && g.profile() == ""), nil)
	g.giverRights = g.lacks(ctx, needs, nil)
	// With these, users may give away rights that they lack.
	var escalating []rbac.Right
	for _, resource := range []string{"clusterroles", "roles"} {
		escalating = append(escalating, rbac.Right{Verb: "escalate", Group: groupRBAC, Resource: resource}, rbac.Right{Verb: "bind", Group: groupRBAC, Resource: resource})
	}
	if free := g.lacks(ctx, escalating, nil); free.hidden == "" && len(free.lacking) == 0 {
		g.giverRights.lacking = nil
	}
}

// serviceAccount is who an apiserver takes a service account for.
func serviceAccount(namespace, name string) *authorizationv1.SubjectAccessReviewSpec {
	return &authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// lacks asks which of the rights who does not have, eight at a time; nil is the user.
func (g *gatherer) lacks(ctx context.Context, rights []rbac.Right, who *authorizationv1.SubjectAccessReviewSpec) answer {
	out := answer{asked: len(rights)}
	may, hidden := make([]bool, len(rights)), make([]string, len(rights))
	// A user who may not ask the first question may not ask any.
	if may[0], hidden[0] = g.may(ctx, rights[0], who); hidden[0] != "" {
		return answer{asked: len(rights), hidden: hidden[0]}
	}
	for start := 1; start < len(rights); start += 8 {
		var asking sync.WaitGroup
		for i := start; i < min(start+8, len(rights)); i++ {
			asking.Go(func() { may[i], hidden[i] = g.may(ctx, rights[i], who) })
		}
		asking.Wait()
	}
	for i, r := range rights {
		out.hidden = cmp.Or(out.hidden, hidden[i])
		if !may[i] && hidden[i] == "" {
			out.lacking = append(out.lacking, r)
		}
	}
	return out
}

// may asks for one right.
func (g *gatherer) may(ctx context.Context, r rbac.Right, who *authorizationv1.SubjectAccessReviewSpec) (allowed bool, hidden string) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	asked := &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace, Name: r.Name}
	own := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
	review, answer := client.Object(own), &own.Status
	if who != nil {
		others := &authorizationv1.SubjectAccessReview{Spec: *who}
		others.Spec.ResourceAttributes = asked
		review, answer = others, &others.Status
	}
	if err := g.Create(ctx, review); err != nil {
		return false, g.hide(err, "create", review)
	}
	return answer.Allowed, ""
}
