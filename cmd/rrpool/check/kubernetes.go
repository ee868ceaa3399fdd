package check

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
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
			do("let somebody with cluster-admin install it, or ask for these rights")
	}
	return fine("you may install rrpool: all %d rights that kubectl apply needs", a.asked)
}

// escalation: an apiserver lets nobody give away rights that he does not have.
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
			do("Kubernetes lets nobody give away what he does not have: let somebody with cluster-admin apply config/rbac, or ask for the verbs escalate and bind on clusterroles and roles")
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
			do("ask somebody who may create subjectaccessreviews.authorization.k8s.io to run this")
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
