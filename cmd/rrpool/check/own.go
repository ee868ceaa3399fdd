package check

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Remedies of more than one check.
const (
	applyDefinition = "kubectl apply --server-side -k config/crd"
	installFirst    = "install rrpool (docs/operations.md), or say with --namespace where it is; rrpool check --pre says whether it can be installed"
	describeManager = "kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool"
)

func object(f facts) *Result {
	switch {
	case f.file != "":
		return fileObject(f)
	case f.stored.hidden != "":
		return unseen("whether there is a RouteReflectorPool", f.stored.hidden)
	case !f.stored.found:
		return note("there is no RouteReflectorPool yet; what follows is for one that is all defaults")
	}
	object := f.stored.value.DeepCopy()
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool")) // which the client drops
	object.Status = v1alpha1.RouteReflectorPoolStatus{}                              // which only the manager writes
	if _, err := crd.Complete(object); err != nil {
		return fail("the RouteReflectorPool is not valid: %s", strings.ReplaceAll(err.Error(), "\n", "; ")).do("correct it: kubectl edit routereflectorpool %s", object.Name)
	}
	return fine("the RouteReflectorPool is valid, with mode %s", object.Spec.Mode)
}

// fileObject: a file that is valid may still not be able to replace what is in the cluster.
func fileObject(f facts) *Result {
	if pool := f.stored.value.Status.Pool; pool != "" {
		have, want := f.stored.value.Spec.Provider, f.object.Spec.Provider
		if have.Type != want.Type || have.IKS.PoolName != want.IKS.PoolName {
			return fail("%s: spec.provider.type %s and iks.poolName %s cannot become %s and %s while the pool %s exists",
				f.file, have.Type, have.IKS.PoolName, want.Type, want.IKS.PoolName, pool).
				do("keep both, or go back first: docs/operations.md, Delete")
		}
	}
	return fine("%s is valid, with mode %s; what follows is for it", f.file, f.object.Spec.Mode)
}

// conditions are what the manager reports of the object that is in the cluster.
func conditions(f facts) *Result {
	if !f.stored.found {
		return nil
	}
	object := f.stored.value
	state, says := (&status.Status{Object: object, Manager: f.manager}).Judge()
	switch state {
	case status.Degraded, status.Unknown:
		problem := status.Problems(object)[0]
		return fail("the manager reports %s: %s", problem.Reason, problem.Message).see(problem.Reason)
	case status.Stale:
		return warn("%s", says).do("see whether it runs: kubectl --namespace %s logs --selector app.kubernetes.io/name=rrpool --prefix", f.namespace)
	case status.Ready, status.Progressing:
		return fine("the manager reports %s: %s", state, says)
	default:
		return note("the manager reports %s: %s", state, says)
	}
}

// explained are refusals of the manager that another check explains.
var explained = []string{"CalicoNotInstalled", "BGPDisabled", "NodeStatusCRDMissing", "MixedASNumbers", "ForeignReflector", "ForeignInClusterPeer", "TooFewNodes"}

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
	case !apihelpers.IsCRDConditionTrue(d.value, apiextensionsv1.Established):
		return fail("rrpool's CRD is not established").do("see what its conditions say, and apply it again: kubectl describe crd %s; %s", definitionName, applyDefinition)
	}
	for _, v := range d.value.Spec.Versions {
		if v.Name != v1alpha1.GroupVersion.Version || !v.Served {
			continue
		}
		if missing := crd.Missing(v.Schema); len(missing) > 0 {
			return fail("rrpool's CRD is of an older version: it does not have %s", iostreams.Few(missing)).do("install that of this version: %s", applyDefinition)
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
		return fail("the manager does not run: %s", f.manager.Message).do("%s", installFirst)
	}
	wanted, available := ptr.Deref(d.value.Spec.Replicas, 1), d.value.Status.AvailableReplicas
	is := fmt.Sprintf("%d of %d available (image %s)", available, wanted, d.value.Spec.Template.Spec.Containers[0].Image)
	switch {
	case wanted == 0:
		return fail("the manager is scaled to 0: nothing is decided, and the safety net does not work").
			do("kubectl --namespace %s scale deployment %s --replicas=2", f.namespace, status.ManagerName)
	case available == 0:
		return fail("the manager does not run: %s", is).do(describeManager, f.namespace)
	case available < wanted:
		return warn("the manager runs: %s; one acts, the others stand by", is).do(describeManager, f.namespace)
	}
	return fine("the manager runs: %s", is)
}
