package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
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
			do("use a context whose user may list and watch Nodes and Calico's objects; most checks below need it")
	}
	return fine("nodes and Calico's objects can be seen: %s", iostreams.Number(len(f.snapshot.Cluster.Nodes), "node"))
}

// result is the same for every question about rights: what is asked for, and what it means
// to lack some of them.
func (a answer) result(question, lack, all string) *Result {
	switch {
	case a.hidden != "":
		return unseen(question, a.hidden)
	case len(a.lacking) > 0:
		names := named(a.lacking)
		return fail(lack+": %s", len(a.lacking), a.asked, iostreams.Few(names)).also(names[min(iostreams.Named, len(names)):]...)
	}
	return fine(all, a.asked)
}

func installRights(f facts) *Result {
	return f.rights.install.result("whether you may install rrpool", "you lack %d of %d rights that installing needs",
		"you may install rrpool: all %d rights that kubectl apply needs").orDo("ask a cluster administrator to install it, or ask for these rights")
}

// escalation: an apiserver lets users give away only rights that they have.
func escalation(f facts) *Result {
	if f.rights.escalates {
		return fine("you may give the manager its %d rights (escalate, bind)", f.rights.user.asked)
	}
	return f.rights.user.result("whether you may give the manager its rights", "you lack %d of the %d rights that you would give the manager",
		"you have all %d rights that you would give the manager").
		orDo("Kubernetes lets users give away only rights that they have: ask a cluster administrator to apply config/rbac, or ask for the verbs escalate and bind on clusterroles and roles")
}

func managerRights(f facts) *Result {
	if f.rights.account.hidden == "" && !f.rights.account.found {
		return fail("there is no ServiceAccount %s in namespace %s", rbac.ServiceAccount, f.namespace).do("%s", installFirst)
	}
	out := f.rights.manager.result("whether the manager may do its work", "the manager lacks %d of the %d rights that it needs",
		"the manager may do all %d things that it needs").orDo("apply its roles again: kubectl apply --server-side -k config/rbac")
	if !out.Unchecked {
		return out
	}
	if own := f.rights.user; own.hidden == "" { // what the user lacks hints at what the manager lacks
		yourself := own.result("", "you yourself lack %d of the %d rights", "you yourself have all %d rights that it needs")
		out.also(yourself.Message).also(yourself.Details...)
	}
	return out.do("ask a user who may create subjectaccessreviews.authorization.k8s.io to run this")
}

// resource of a right, and where it is, as kubectl auth can-i would be asked for it.
func resource(r rbac.Right) string {
	out, subresource, nested := strings.Cut(r.Resource, "/")
	if r.Group != "" {
		out += "." + r.Group
	}
	if nested {
		out += "/" + subresource
	}
	if r.Name != "" {
		out += " " + r.Name
	}
	if r.Namespace != "" {
		out += " in namespace " + r.Namespace
	}
	return out
}

// named are the rights as they are shown: all verbs for one thing together.
func named(rights []rbac.Right) []string {
	var things []string
	verbs := map[string][]string{}
	for _, r := range rights {
		thing := resource(r)
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

// needed are the rights that the manager needs: those of config/rbac.
func needed(namespace string) ([]rbac.Right, error) {
	grants, err := rbac.Grants(namespace)
	var out []rbac.Right
	for _, g := range grants {
		out = append(out, g.Rights()...)
	}
	return out, err
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
		{Namespace: namespace, Group: "apps", Resource: "deployments", Name: managerName},
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

// escalating are the rights to give away what one does not have.
func escalating() (out []rbac.Right) {
	for _, verb := range []string{"escalate", "bind"} {
		for _, resource := range []string{"clusterroles", "roles"} {
			out = append(out, rbac.Right{Verb: verb, Group: groupRBAC, Resource: resource})
		}
	}
	return out
}

// gatherRights asks who may do what.
func (g *gatherer) gatherRights(ctx context.Context) error {
	needs, err := needed(g.namespace)
	if err != nil {
		return err
	}
	r := &g.rights
	if g.pre {
		r.install = g.lacks(ctx, installing(g.namespace, needs, g.iks()), nil)
		free := g.lacks(ctx, escalating(), nil)
		r.escalates = free.hidden == "" && len(free.lacking) == 0
	} else {
		r.manager = g.lacks(ctx, needs, serviceAccount(g.namespace, rbac.ServiceAccount))
	}
	if g.pre || r.manager.hidden != "" {
		r.user = g.lacks(ctx, needs, nil)
	}
	return nil
}

// serviceAccount is who an apiserver takes a service account for.
func serviceAccount(namespace, name string) *authorizationv1.SubjectAccessReviewSpec {
	return &authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// atOnce is how many questions are asked at a time.
const atOnce = 8

// lacks asks which of the rights who does not have; nil is the user.
func (g *gatherer) lacks(ctx context.Context, rights []rbac.Right, who *authorizationv1.SubjectAccessReviewSpec) answer {
	out := answer{asked: len(rights)}
	may, hidden := make([]bool, len(rights)), make([]string, len(rights))
	// A user who may not ask the first question may not ask any.
	if may[0], hidden[0] = g.may(ctx, rights[0], who); hidden[0] != "" {
		out.hidden = hidden[0]
		return out
	}
	var asking sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := 1; i < len(rights); i++ {
		slots <- struct{}{}
		asking.Go(func() {
			may[i], hidden[i] = g.may(ctx, rights[i], who)
			<-slots
		})
	}
	asking.Wait()
	for i, r := range rights {
		switch {
		case hidden[i] != "":
			out.hidden = hidden[i]
		case !may[i]:
			out.lacking = append(out.lacking, r)
		}
	}
	return out
}

// may asks for one right.
func (g *gatherer) may(ctx context.Context, r rbac.Right, who *authorizationv1.SubjectAccessReviewSpec) (allowed bool, hidden string) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	asked := &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace, Name: r.Name}
	if who == nil {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
		if err := g.Create(ctx, review); err != nil {
			return false, g.Explain(err, "create", "selfsubjectaccessreviews.authorization.k8s.io").Error()
		}
		return review.Status.Allowed, ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: *who}
	review.Spec.ResourceAttributes = asked
	if err := g.Create(ctx, review); err != nil {
		return false, g.Explain(err, "create", "subjectaccessreviews.authorization.k8s.io").Error()
	}
	return review.Status.Allowed, ""
}
