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
// validation rules have a fieldPath since then. kubectl refuses to apply it to an older one.
var oldest = version.MustParseGeneric("1.28")

func kubernetes() group {
	return group{"Kubernetes", []check{
		{"apiserver", func(f facts) *Result { return fine("%s answers", f.server) }},
		{"kubernetes-version", kubernetesVersion},
		{"sight", sight},
		{"install-rights", installRights},
		{"escalation", escalation},
		{"manager-rights", managerRights},
	}}
}

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

// sight: without seeing nodes and Calico's objects nothing can be said.
func sight(f facts) *Result {
	if f.snapshot == nil {
		return fail("you may not see what the manager looks at: %s", f.blind).
			do("use a context whose user may list and watch Nodes and Calico's objects; most checks below need it")
	}
	return fine("nodes and Calico's objects can be seen: %s", count(len(f.snapshot.Cluster.Nodes), "node", "nodes"))
}

func installRights(f facts) *Result {
	a := f.rights.install
	switch {
	case !f.pre:
		return nil
	case a.hidden != "":
		return unseen("whether you may install rrpool", a.hidden)
	case len(a.lacking) > 0:
		return fail("you lack %d of %d rights that installing needs: %s", len(a.lacking), a.asked, iostreams.Few(named(a.lacking))).
			also(others(a.lacking)...).
			do("ask a cluster administrator to install it, or ask for these rights")
	}
	return fine("you may install rrpool: all %d rights that kubectl apply needs", a.asked)
}

// escalation: an apiserver lets users give away only rights that they have.
func escalation(f facts) *Result {
	a := f.rights.user
	switch {
	case !f.pre:
		return nil
	case f.rights.escalates:
		return fine("you may give the manager its %d rights (escalate, bind)", a.asked)
	case a.hidden != "":
		return unseen("whether you may give the manager its rights", a.hidden)
	case len(a.lacking) > 0:
		return fail("you lack %d of the %d rights that you would give the manager: %s", len(a.lacking), a.asked, iostreams.Few(named(a.lacking))).
			also(others(a.lacking)...).
			do("Kubernetes lets users give away only rights that they have: ask a cluster administrator to apply config/rbac, or ask for the verbs escalate and bind on clusterroles and roles")
	}
	return fine("you have all %d rights that you would give the manager", a.asked)
}

func managerRights(f facts) *Result {
	a := f.rights.manager
	switch {
	case f.pre:
		return nil
	case f.rights.account.hidden == "" && !f.rights.account.found:
		return fail("there is no ServiceAccount %s in namespace %s", rbac.ServiceAccount, f.namespace).
			do("install rrpool (docs/operations.md), or say with --namespace where it is; rrpool check --pre says whether it can be installed")
	case a.hidden != "":
		return unseen("whether the manager may do its work", a.hidden).also(yourself(f.rights.user)...).
			do("ask a user who may create subjectaccessreviews.authorization.k8s.io to run this")
	case len(a.lacking) > 0:
		return fail("the manager lacks %d of the %d rights that it needs: %s", len(a.lacking), a.asked, iostreams.Few(named(a.lacking))).
			also(others(a.lacking)...).
			do("apply its roles again: kubectl apply --server-side -k config/rbac")
	}
	return fine("the manager may do all %d things that it needs", a.asked)
}

// yourself says how the user stands, where the manager could not be asked for.
func yourself(a answer) []string {
	switch {
	case a.hidden != "":
		return nil
	case len(a.lacking) > 0:
		return append([]string{fmt.Sprintf("you yourself lack %d of the %d rights: %s", len(a.lacking), a.asked, iostreams.Few(named(a.lacking)))}, others(a.lacking)...)
	}
	return []string{fmt.Sprintf("you yourself have all %d rights that it needs", a.asked)}
}

// others are the rights that few has left out.
func others(rights []right) []string {
	all := named(rights)
	return all[min(iostreams.Named, len(all)):]
}

// right is one thing that a user may be allowed to do.
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

// subject is a service account.
type subject struct{ namespace, name string }

func (s subject) spec() authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + s.namespace + ":" + s.name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + s.namespace, "system:authenticated"},
	}
}

// lookAtRights asks who may do what.
func (g *gatherer) lookAtRights(ctx context.Context) error {
	needs, err := needed(g.namespace)
	if err != nil {
		return err
	}
	r := &g.rights
	if g.pre {
		installs, err := installing(g.namespace, g.iks())
		if err != nil {
			return err
		}
		r.install = g.lacks(ctx, installs, nil)
		free := g.lacks(ctx, escalating(), nil)
		r.escalates = free.hidden == "" && len(free.lacking) == 0
		r.user = g.lacks(ctx, needs, nil)
		return nil
	}
	r.manager = g.lacks(ctx, needs, &subject{g.namespace, rbac.ServiceAccount})
	if r.manager.hidden != "" {
		r.user = g.lacks(ctx, needs, nil)
	}
	return nil
}

// atOnce is how many questions are asked at a time.
const atOnce = 8

// lacks asks which of the rights a service account does not have, or, where who is nil, the
// user.
func (g *gatherer) lacks(ctx context.Context, rights []right, who *subject) answer {
	out := answer{asked: len(rights)}
	may, hidden := make([]bool, len(rights)), make([]string, len(rights))
	// Whoever may not ask the first question may not ask any.
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

// may asks whether a service account, or the user, may do one thing.
func (g *gatherer) may(ctx context.Context, r right, who *subject) (allowed bool, hidden string) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	if who == nil {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r.attributes()}}
		if err := g.Create(ctx, review); err != nil {
			return false, g.Explain(err, "create", "selfsubjectaccessreviews.authorization.k8s.io").Error()
		}
		return review.Status.Allowed, ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: who.spec()}
	review.Spec.ResourceAttributes = r.attributes()
	if err := g.Create(ctx, review); err != nil {
		return false, g.Explain(err, "create", "subjectaccessreviews.authorization.k8s.io").Error()
	}
	return review.Status.Allowed, ""
}
