package check

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Remedies of more than one check.
const (
	applyDefinition = "kubectl apply --server-side -k config/crd"
	describeManager = "kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool"
)

// definitionName is the CRD's.
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

// explained are refusals of the manager that another check explains.
var explained = []string{"CalicoNotInstalled", "BGPDisabled", "NodeStatusCRDMissing", "MixedASNumbers", "ForeignReflector", "ForeignInClusterPeer", "TooFewNodes", "NoRoutesOverBGP", "RoutesUnknown"}

// decision is what the manager would do next, or why it would not.
func decision(f facts) *Result {
	step := f.snapshot.Step
	switch {
	case step.Problem == nil && step.Name == rollout.Steady:
		return fine("the manager would change nothing: %s", step.Reason)
	case step.Problem == nil:
		return fine("the next step would be %s: %s", step.Name, step.Reason)
	case slices.Contains(explained, step.Problem.Reason):
		return nil
	}
	return refusal(*step.Problem)
}

// definition: the kind exists, in the version that this program uses.
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

// manager: one without a Deployment may run under another name or outside of the cluster. Then it holds the lease.
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
