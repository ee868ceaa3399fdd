package check

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// oldest is the first version of Kubernetes that knows every field of our CRD: 1.28 introduced fieldPath in validation rules.
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

func managerRights(f facts) *Result {
	a := f.managerRights
	switch {
	case a.hidden != "":
		return unseen("whether the manager may do its work", a.hidden)
	case len(a.lacking) > 0:
		names := named(a.lacking)
		return fail("the manager lacks %d of the %d rights that it needs: %s", len(a.lacking), a.asked, plan.Few(names)).
			also(names[min(plan.Named, len(names)):]...).do("apply its roles again: kubectl apply --server-side -k config/rbac")
	}
	return fine("the manager may do all %d things that it needs", a.asked)
}

// named renders rights, one text for each resource with all its verbs.
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

// serviceAccount returns the user and groups that an apiserver gives a service account.
func serviceAccount(namespace, name string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// missing asks which of the rights the user lacks, with up to eight requests at a time.
func (g *gatherer) missing(ctx context.Context, rights []rbac.Right, who authorizationv1.SubjectAccessReviewSpec) answer {
	out := answer{asked: len(rights)}
	may, hidden := make([]bool, len(rights)), make([]string, len(rights))
	// A user who may not create the first review may not create any.
	if may[0], hidden[0] = g.may(ctx, rights[0], who); hidden[0] != "" {
		return answer{asked: len(rights), hidden: hidden[0]}
	}
	workqueue.ParallelizeUntil(ctx, 8, len(rights)-1, func(i int) { may[i+1], hidden[i+1] = g.may(ctx, rights[i+1], who) })
	for i, r := range rights {
		out.hidden = cmp.Or(out.hidden, hidden[i])
		if !may[i] && hidden[i] == "" {
			out.lacking = append(out.lacking, r)
		}
	}
	return out
}

// may returns whether the user has a right. If that is not known, hidden says why.
func (g *gatherer) may(ctx context.Context, r rbac.Right, who authorizationv1.SubjectAccessReviewSpec) (allowed bool, hidden string) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: who}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace, Name: r.Name,
	}
	if err := g.Create(ctx, review); err != nil {
		return false, g.hide(err, "create", review)
	}
	return review.Status.Allowed, ""
}

// Commands that are the remedy of several results.
const (
	applyDefinition = "kubectl apply --server-side -k config/crd"
	describeManager = "kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool"
)

// definitionName is the name of our CRD.
const definitionName = "routereflectorpools.rrpool.io"

func object(f facts) *Result {
	switch {
	case f.file != "":
		return fine("%s is valid, with mode %s; what follows is for it", f.file, f.object.Spec.Mode)
	case f.stored.hidden != "":
		return unseen("whether there is a RouteReflectorPool", f.stored.hidden)
	case !f.stored.found:
		return note("there is no RouteReflectorPool yet; what follows is for one that is all defaults")
	}
	return fine("there is a RouteReflectorPool, with mode %s", f.object.Spec.Mode)
}

// decision says what the manager would do next, or why it would do nothing.
func decision(f facts) *Result {
	step := f.snapshot.Step
	switch {
	case step.Problem == nil && step.Name == rollout.Steady:
		return fine("the manager would change nothing: %s", step.Reason)
	case step.Problem == nil && len(step.Actions) == 0 && len(step.WaitingFor) > 0:
		return note("the manager would wait: %s: %s", step.Name, step.Reason).also(plan.Few(step.WaitingFor))
	case step.Problem == nil:
		return fine("the next step would be %s: %s", step.Name, step.Reason)
	}
	return refusal(*step.Problem)
}

// definition checks that the CRD is installed, with all fields that this program knows.
func definition(f facts) *Result {
	d := f.definition
	switch {
	case d.hidden != "":
		return unseen("rrpool's CRD", d.hidden)
	case !d.found && f.pre:
		return note("rrpool's CRD is not installed yet")
	case !d.found:
		return fail("rrpool's CRD %s is not installed", definitionName).do("install it: %s", applyDefinition)
	}
	for _, v := range d.value.Spec.Versions {
		if v.Name != v1alpha1.GroupVersion.Version || !v.Served {
			continue
		}
		if missing := crd.Missing(v.Schema); len(missing) > 0 {
			return fail("rrpool's CRD is of an older version: it does not have %s", plan.Few(missing)).do("install that of this version: %s", applyDefinition)
		}
		return fine("rrpool's CRD serves %s", v1alpha1.GroupVersion)
	}
	return fail("rrpool's CRD does not serve version %s", v1alpha1.GroupVersion.Version).do("install that of this version: %s", applyDefinition)
}

// manager checks that the manager runs. A manager under another name or outside of the cluster has no Deployment here, but holds the lease.
func manager(f facts) *Result {
	d := f.deployment
	switch {
	case !d.found && f.manager.Status == status.Running:
		return warn("%s; its Deployment %s is not seen in namespace %s", f.manager.Message, status.ManagerName, f.namespace).
			do("if the manager runs elsewhere or under another name there is nothing to do, but its version and its replicas cannot be seen from here")
	case d.hidden != "":
		return unseen("whether the manager runs", d.hidden)
	case !d.found && f.pre:
		return note("the manager is not installed yet")
	case !d.found:
		return fail("the manager does not run: %s", f.manager.Message).
			do("install rrpool (docs/install.md), or say with --namespace where it is")
	}
	wanted, available := ptr.Deref(d.value.Spec.Replicas, 1), d.value.Status.AvailableReplicas
	is := fmt.Sprintf("%d of %d available (image %s)", available, wanted, d.value.Spec.Template.Spec.Containers[0].Image)
	switch {
	case available == 0:
		return fail("the manager does not run: %s", is).do(describeManager, f.namespace)
	case available < wanted:
		return warn("the manager runs: %s; one acts, the others stand by", is).do(describeManager, f.namespace)
	}
	return fine("the manager runs: %s", is)
}
